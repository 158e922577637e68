"""Write records to a file of this worker, only readable by its owner, rotated by size."""

import os
from pathlib import Path


class RotatedFile:
    """`FOLDER/payloads-WORKER.jsonl`, and `.1` (newest) to `.N-1` of earlier ones.

    One thread may write, and during a hand-over one of another gateway as well. Raises OSError as
    the disk does; the next `write` tries again.
    """

    def __init__(self, folder: Path, worker: int, *, max_bytes: int, files: int) -> None:
        self._path = folder / f"payloads-{worker}.jsonl"
        self._max_bytes = max_bytes
        self._files = files
        self._open: int | None = None
        self._size = 0

    def write(self, line: bytes) -> None:
        """Append a line with its newline, in one system call unless the disk is full."""
        if self._open is None:
            self._begin()
        if self._size and self._size + len(line) > self._max_bytes:
            self._rotate()
        assert self._open is not None
        view = memoryview(line)
        while view:
            written = os.write(self._open, view)
            self._size += written
            view = view[written:]

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def _begin(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._open = os.open(self._path, flags, 0o600)
        os.fchmod(self._open, 0o600)
        self._size = os.fstat(self._open).st_size

    def _rotate(self) -> None:
        """Begin a new file, unless another gateway has: then go on in that one."""
        named = self._is_named()
        self.close()
        if not named:
            self._begin()
            return
        earlier = [self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._files)]
        for older, newer in reversed(list(zip(earlier[1:], earlier, strict=False))):
            if newer.exists():
                newer.replace(older)
        if earlier:
            self._path.replace(earlier[0])
        else:
            self._path.unlink()
        self._begin()

    def _is_named(self) -> bool:
        """Whether the open file still has the name."""
        assert self._open is not None
        try:
            return os.path.samestat(os.fstat(self._open), self._path.stat())
        except FileNotFoundError:
            return False
