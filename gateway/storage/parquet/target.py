"""Where parts are written: a folder, or a bucket of S3 or of a server that is compatible with it.

A file is either absent or complete. S3 shows an object once it is; in a folder, a file is written
under another name, synced and renamed. https://arrow.apache.org/docs/python/filesystems.html
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from strowger_gateway.gateway.storage.parquet.parts import arrow
from strowger_gateway.schemas.errors import InvalidConfig

S3 = "s3://"
_LOCK = "_strowger/lock"


class ExportTarget(Protocol):
    """Names are relative, with `/`. Raises OSError."""

    def exists(self, name: str) -> bool: ...
    def read(self, name: str) -> bytes: ...
    def write(self, name: str, content: bytes) -> None: ...
    def close(self) -> None: ...


def open_target(where: str) -> ExportTarget:
    """Open a folder, which is created, or `s3://BUCKET/PREFIX?OPTIONS` with pyarrow's options.

    Raises InvalidConfig for a malformed address or a folder that another process exports to.
    """
    if where and "://" not in where:
        return Folder(Path(where))
    if not where.startswith(S3) or where.removeprefix(S3)[:1] in {"", "/", "?"}:
        raise InvalidConfig(("--to: must be a folder or s3://BUCKET/PREFIX",))
    files = arrow("pyarrow.fs")
    try:
        return Bucket(*files.FileSystem.from_uri(where))
    except (ValueError, OSError) as exc:
        why = "--to: not an address of a bucket; write s3://BUCKET/PREFIX?region=REGION"
        raise InvalidConfig((why,)) from exc


class Folder:
    """A folder, for one process at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lock = path / _LOCK
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise InvalidConfig((f"--to: {path}: {exc.strerror}",)) from exc
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(self._lock)
            message = f"--to: another process exports to {path}; wait for it"
            raise InvalidConfig((message,)) from exc

    def exists(self, name: str) -> bool:
        return (self._path / name).exists()

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        file = self._path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.part")
        with part.open("wb") as open_file:
            open_file.write(content)
            open_file.flush()
            os.fsync(open_file.fileno())
        part.replace(file)
        folder = os.open(file.parent, os.O_RDONLY)
        with suppress(OSError):  # not every file system syncs folders
            os.fsync(folder)
        os.close(folder)

    def close(self) -> None:
        os.close(self._lock)


class _FileInfo(Protocol):
    is_file: bool


class _Stream(Protocol):
    def read(self) -> bytes: ...
    def write(self, content: bytes) -> None: ...
    def close(self) -> None: ...


class _FileSystem(Protocol):
    """The part of pyarrow's file systems that we use."""

    def get_file_info(self, path: str) -> _FileInfo: ...
    def open_input_stream(self, path: str) -> _Stream: ...
    def open_output_stream(self, path: str) -> _Stream: ...


class Bucket:
    """A bucket, which exists. Nothing keeps two processes from exporting to it."""

    def __init__(self, files: _FileSystem, prefix: str) -> None:
        self._files = files
        self._prefix = prefix.rstrip("/")

    def exists(self, name: str) -> bool:
        return self._files.get_file_info(f"{self._prefix}/{name}").is_file

    def read(self, name: str) -> bytes:
        stream = self._files.open_input_stream(f"{self._prefix}/{name}")
        try:
            return stream.read()
        finally:
            stream.close()

    def write(self, name: str, content: bytes) -> None:
        """The object appears when the stream is closed."""
        stream = self._files.open_output_stream(f"{self._prefix}/{name}")
        stream.write(content)
        stream.close()

    def close(self) -> None:
        """Nothing is open."""
