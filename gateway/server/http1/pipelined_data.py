"""Bytes of a connection that wait because too many of its requests do.

One read may hold thousands of small requests. Parsing them all at the same moment would delay other
connections, and keep them in memory, so they are parsed as the earlier ones are answered.
"""

import asyncio
from typing import Final, Protocol

FEW_BYTES: Final = 1024
"""Data that is parsed in one go in any case: up to some 30 requests."""

_SLICE: Final = 512
"""Bytes that are parsed at a time otherwise: up to some 15 requests."""

_END_OF_HEAD: Final = b"\r\n\r\n"


def is_pipelined(data: bytes, most: int) -> bool:
    """Return whether data of more than FEW_BYTES may have more heads than `most`."""
    return data.count(_END_OF_HEAD) > most


class SlicedConnection(Protocol):
    """The connection whose data it is."""

    def takes_more(self) -> bool:
        """Return whether few of its requests wait, and no body is too far ahead."""
        ...

    def feed(self, data: bytes) -> None:
        """Parse this, now."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class PipelinedData:
    """What has arrived and is not parsed yet; true while there is any. Refers to its connection."""

    __slots__ = ("_at", "_connection", "_data", "_loop", "_scheduled")

    def __init__(self, connection: SlicedConnection, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop
        self._data, self._at = b"", 0
        self._scheduled = False

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def add(self, data: bytes) -> None:
        """Parse what arrived, or keep it until it is its turn."""
        self._data, self._at = self._data[self._at :] + data, 0
        if not self._scheduled:
            self._go_on()

    def go_on_soon(self) -> None:
        """Parse more in the next turn of the event loop."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._scheduled = False
        connection = self._connection
        while self and connection.takes_more():
            begin = self._at
            self._at = begin + _SLICE
            connection.feed(self._data[begin : self._at])
        if self:
            connection.pause_reading()
        else:
            self._data, self._at = b"", 0
            connection.resume_reading()
