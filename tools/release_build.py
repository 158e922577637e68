"""Build wheel and sdist twice, in different surroundings, and compare them: `make dist`.

The builds run in copies of the files that git tracks, with the time of the last commit as
SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/), so every build of the
same commit with the locked hatchling has the same bytes.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
SUMS = "SHA256SUMS"

_ELSEWHERE = {"TZ": "Pacific/Auckland", "LC_ALL": "C", "PYTHONHASHSEED": "7", "HOME": "/"}
"""Environment of the second build: what has no influence on the result."""


class DifferentBuilds(Exception):
    """Two builds of the same files differ. The message names the files."""


def tracked(root: Path) -> tuple[str, ...]:
    """Return the files and links that git tracks and that exist, relative to `root`."""
    listed = subprocess.run(
        ("git", "ls-files", "-z"), cwd=root, capture_output=True, text=True, check=True
    )
    paths = ((name, root / name) for name in listed.stdout.split("\0"))
    return tuple(name for name, path in paths if path.is_file() or path.is_symlink())


def copy(root: Path, names: tuple[str, ...], target: Path) -> None:
    """Copy links, and files with content and executable bits; times are those of the copy."""
    for name in names:
        copied = target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, copied, follow_symlinks=False)


def build(
    source: Path,
    out: Path,
    epoch: int,
    *,
    kinds: tuple[str, ...] = ("sdist", "wheel"),
    env: Mapping[str, str] | None = None,
    umask: int = 0o022,
) -> dict[str, bytes]:
    """Build from a folder; return the files by name.

    kinds: `sdist` and `wheel`. Raises CalledProcessError with hatchling's output in `stderr`.
    """
    targets = (word for kind in kinds for word in ("-t", kind))
    subprocess.run(
        (sys.executable, "-m", "hatchling", "build", "-d", str(out), *targets),
        cwd=source,
        env={**os.environ, **(env or {}), "SOURCE_DATE_EPOCH": str(epoch)},
        umask=umask,
        capture_output=True,
        check=True,
    )
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def build_twice(root: Path, folder: Path, epoch: int) -> dict[str, bytes]:
    """Build in two copies and from the sdist; return the files. Raises DifferentBuilds."""
    names = tracked(root)
    first, second, unpacked = folder / "first", folder / "else where" / "x", folder / "unpacked"
    copy(root, names, first)
    copy(root, tuple(reversed(names)), second)
    built = build(first, folder / "out-1", epoch)
    again = build(second, folder / "out-2", epoch, env=_ELSEWHERE, umask=0o077)
    sdist = next(folder.joinpath("out-1").glob("*.tar.gz"))
    shutil.unpack_archive(sdist, unpacked, filter="data")
    from_sdist = build(next(unpacked.iterdir()), folder / "out-3", epoch, kinds=("wheel",))
    different = [name for name, content in built.items() if again.get(name) != content]
    different += [
        f"{name} from the sdist" for name in from_sdist if built.get(name) != from_sdist[name]
    ]
    if different:
        raise DifferentBuilds(f"two builds differ in {', '.join(different)}")
    return built


def epoch_of(root: Path) -> int:
    """Return the time of the last commit, in seconds since 1970."""
    shown = subprocess.run(
        ("git", "log", "-1", "--format=%ct"), cwd=root, capture_output=True, text=True, check=True
    )
    return int(shown.stdout)


def main() -> None:
    """Replace dist/ by the files and their SHA-256 sums."""
    changed = subprocess.run(
        ("git", "status", "--porcelain"), cwd=ROOT, capture_output=True, text=True, check=True
    )
    if changed.stdout:
        raise SystemExit(f"commit these first; a release is built from a commit:\n{changed.stdout}")
    with tempfile.TemporaryDirectory(prefix="strowger-dist-") as folder:
        try:
            built = build_twice(ROOT, Path(folder), epoch_of(ROOT))
        except subprocess.CalledProcessError as exc:
            raise SystemExit(exc.stderr.decode()) from exc
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in built.items()]
    for name, content in {**built, SUMS: "".join(sums).encode()}.items():
        (DIST / name).write_bytes(content)
    sys.stdout.writelines(sums)


if __name__ == "__main__":
    main()
