"""Settings files on disk: read, written whole with a copy of what was there, and kept from git."""

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from strowger_gateway.gateway.cli.config_loading import Faults

BACKUP: Final = ".before-strowger"
"""End of the name of a file's copy, which is next to it."""

LARGEST: Final = 8 * 1024 * 1024
"""Bytes of a settings file. A larger one is refused."""


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + BACKUP)


def text_of(path: Path) -> str | None:
    """Return a file's text, `None` without a file. Raises Faults."""
    try:
        if path.stat().st_size > LARGEST:
            raise Faults((f"{path}: is larger than {LARGEST // 1024**2} MiB",))
        if not path.is_file():
            raise Faults((f"{path}: is not a file",))
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as exc:
        raise Faults((f"{path}: is not UTF-8 text",)) from exc
    except OSError as exc:
        raise Faults((f"{path}: {exc.strerror}",)) from exc


def refuse_protected(path: Path) -> None:
    """Raise Faults for a file that its owner, or another user, keeps from changes.

    Replacing it would not need the right to write it, only that to its folder.
    """
    real = path.resolve()
    with suppress(FileNotFoundError):
        if not real.stat().st_mode & 0o222 or not os.access(real, os.W_OK):
            raise Faults((f"{path}: is read-only; nothing is written; `chmod u+w {real}` first",))


def write(path: Path, text: str) -> None:
    """Replace a file, or make it readable for its owner alone. Raises Faults.

    A link stays one: what it names is replaced, because people keep settings in repositories. With
    root's rights it stays its owner's, and a new file becomes that of its folder's owner.
    """
    real = path.resolve()
    try:
        owner = _made(real.parent)
        with suppress(FileNotFoundError):
            owner = real.stat()
        handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileNotFoundError):
                Path(name).chmod(real.stat().st_mode & 0o7777)
            _give(Path(name), owner)
            Path(name).replace(real)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise Faults((f"{path}: {exc.strerror}",)) from exc


def remove(path: Path) -> None:
    """Remove a file, or what a link names, if there is one. Raises Faults."""
    try:
        path.resolve().unlink(missing_ok=True)
    except OSError as exc:
        raise Faults((f"{path}: {exc.strerror}",)) from exc


def _made(folder: Path) -> os.stat_result:
    """Make a folder with those around it. Return the facts of the nearest that was there."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    owner = (missing[-1].parent if missing else folder).stat()
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        _give(one, owner)
    return owner


def _give(path: Path, owner: os.stat_result) -> None:
    """Leave a file that root writes to the user whose settings it has."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        os.chown(path, owner.st_uid, owner.st_gid)


def git_takes(path: Path) -> str:
    """Return why a secret in a file may end in a repository of git; "" if it cannot."""
    real = path.resolve()
    folder = next((one for one in real.parents if one.is_dir()), Path("/"))
    around = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)
    if around is None:
        return ""
    if _git(folder, "ls-files", "--error-unmatch", str(real)):
        return f"git tracks it in {around}"
    if _git(folder, "check-ignore", "--quiet", str(real)):
        return ""
    return f"it is in the git repository {around}, which does not ignore it"


def git_sees_copy(path: Path) -> bool:
    """Whether git ignores a file, and not the copy of it: that could end in a commit."""
    return not git_takes(path) and bool(git_takes(backup_of(path)))


def _git(folder: Path, *words: str) -> bool:
    """Whether git says yes. Without git, it says nothing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
