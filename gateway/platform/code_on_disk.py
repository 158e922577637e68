"""Whether the files on disk are still those that the running processes were started from."""

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from strowger_gateway.gateway.platform.child_environment import ROOT

PACKAGES = tuple(
    f"strowger_gateway/{name}" for name in ("gateway", "adapters", "schemas", "local_engine")
)
"""Each by itself: in a checkout they are links, which `rglob` does not follow."""


class CodeChanged(Exception):
    """The files differ, so no process can be started that understands those that run."""


class _File(Struct, frozen=True):
    size: int
    modified_ns: int
    checksum: int


class CodeOnDisk:
    """The Python files of the package, as they are when this is created.

    root: the folder that contains the package.
    """

    def __init__(self, root: Path = Path(ROOT)) -> None:
        self._root = root
        self._files = {path: file for path in _sources(root) if (file := _read(path)) is not None}

    def check(self) -> None:
        """Raises CodeChanged: a process with other code may wait for messages that never come."""
        if file := self.changed():
            raise CodeChanged(
                f"restart the gateway, because {file} changed on disk since it started"
            )

    def changed(self) -> str:
        """Name the first file that has other content or is missing; "" if all are the same."""
        for path, file in self._files.items():
            try:
                status = path.stat()
            except OSError:
                return self._named(path)
            if (status.st_size, status.st_mtime_ns) == (file.size, file.modified_ns):
                continue
            now = _read(path)
            if now is None or now.checksum != file.checksum:
                return self._named(path)
        return ""

    def _named(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _sources(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((root / package).rglob("*.py"))


def _read(path: Path) -> _File | None:
    try:
        status = path.stat()
        return _File(status.st_size, status.st_mtime_ns, crc32(path.read_bytes()))
    except OSError:
        return None
