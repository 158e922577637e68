"""An event loop whose clock jumps to the next timer: sleeping takes no time."""

import asyncio
import selectors
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time. Time begins at 1,000 s, after all times that mean "never"."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.now

    def nanoseconds(self) -> int:
        """The same clock, as limits read it."""
        return round(self._jumps.now * 1e9)


class _Jumps(selectors.BaseSelector):
    """Waits by moving the clock. now: seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._keys: dict[FileDescriptorLike, selectors.SelectorKey] = {}

    def register(
        self, fileobj: "FileDescriptorLike", events: int, data: object = None
    ) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Raises RuntimeError if nothing will ever happen."""
        if timeout is None:
            raise RuntimeError("nothing is left to wait for")
        self.now += max(timeout, 0.0)
        return []

    def get_map(self) -> "Mapping[FileDescriptorLike, selectors.SelectorKey]":
        return self._keys
