"""Work on what a peer sends in slices, one per iteration of the event loop, and only while there
is room for it.

A loop in C reads a socket up to 32 times in a row, 256 KiB each time: a backend that sends as fast
as it can, be it comments, would keep all other requests waiting for seconds.
"""

import asyncio
from typing import Final

from strowger_gateway.gateway.platform.eventloop.turn import Turn

BUFFER_BYTES: Final = 64 * 1024
"""Bytes of a body that wait for their reader before reading pauses."""

LONG: Final = 16 * 1024
"""Bytes of one read, more than pieces of streams have: no other read follows in this iteration."""

SLICE: Final = 16 * 1024
"""Bytes of events that are worked on in one iteration: at most some 5 ms, if all are tiny."""


class PacedReads(asyncio.Protocol):
    """The part of a connection that says when its socket is read.

    Its `data_received` gives a read of more than LONG bytes to `_pace`, unless `_rest` is set, and
    its `connection_lost` begins with `_take_rest`.
    """

    __slots__ = ("_full", "_lost", "_rest", "_scheduled", "_transport", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._transport: asyncio.Transport  # from connection_made
        self._lost = False
        self._full = False  # as much waits for its reader as may wait
        self._rest: bytes | None = None  # of a long read; reading is paused until it is `None`
        self._scheduled = False

    def _appetite(self) -> int:
        """Return how many bytes to take now; 0 if the answer is over: what follows is surplus."""
        raise NotImplementedError

    def _pause(self) -> None:
        """Read no more until `_resume`: the reader is slow."""
        if not self._full:
            self._full = True
            if self._rest is None:
                self._transport.pause_reading()

    def _resume(self) -> None:
        if self._full:
            self._full = False
            if self._rest is not None:
                self._schedule()
            elif not self._lost:
                self._transport.resume_reading()

    def _pace(self, data: bytes) -> None:
        """Take a slice of a long read; the next one comes in the loop's next iteration."""
        if not self._full:
            self._transport.pause_reading()
        self._rest = data
        self._next()

    def _next(self) -> None:
        rest, size = self._rest or b"", self._appetite()
        self._rest = rest[size:]
        self.data_received(rest[:size])
        if self._rest and not self._appetite():
            self._take_rest()
        elif not self._full:
            self._schedule()

    def _take_rest(self) -> None:
        """Take all of it now: the connection is lost, or it is surplus."""
        rest = self._rest
        if rest is not None:
            self._rest = b""
            if rest:
                self.data_received(rest)
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._turn.loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._scheduled = False
        if self._rest:
            if not self._full:
                self._next()
        elif self._rest is not None:
            self._rest = None
            if not self._full and not self._lost:
                self._transport.resume_reading()
