"""Bound what gateways on TCP may leave unfinished: the bytes of all frames together, and the time.

A frame states its length first, so its bytes are claimed before they arrive, in turn by peer. While
there is no room, the connection is not read. A small frame needs no claim.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from strowger_gateway.schemas.fair_queue import Waiting
from strowger_gateway.schemas.fair_share import FairShare
from strowger_gateway.schemas.holdings import Holder

MAX_REQUEST_BYTES = 96 * 1024 * 1024
"""Default of --max-request-bytes: a body of the default `server.max_body_bytes` that is all one
tensor, which is sent in base64."""

LEAST_REQUEST_BYTES = 1024 * 1024

UNFINISHED = 3
"""Unfinished frames have so many times --max-request-bytes together."""

SMALL_BYTES = 64 * 1024
"""Up to here a frame needs no claim."""

FRAME_S = 60.0
"""Seconds within which a frame has to be complete."""


class Pausable(Protocol):
    """A transport that can stop reading."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool: ...


class FrameIntake:
    """The unfinished frames of all connections. longest: bytes of one, at least 1."""

    def __init__(self, longest: int = MAX_REQUEST_BYTES, *, frame_s: float = FRAME_S) -> None:
        self.longest = longest
        self.frame_s = frame_s
        self.shares = FairShare["ConnectionIntake"](UNFINISHED * longest, several=True)

    def serve(self) -> None:
        """Let connections go on whose turn it is."""
        for intake in list(self.shares.serve()):
            intake.granted()


class ConnectionIntake:
    """One connection's frame in progress. `note` after each read, `close` at the end."""

    def __init__(
        self, all: FrameIntake, transport: Pausable, peer: str, late: Callable[[], None]
    ) -> None:
        """peer: the address that shares with others. late: called if a frame takes too long."""
        self._all = all
        self._transport = transport
        self._holder = Holder(peer)
        self._late = late
        self._loop = asyncio.get_running_loop()
        self._frame = (0, 0)
        self._claimed = 0
        self._waiting: Waiting[ConnectionIntake] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def note(self, finished: int, announced: int) -> None:
        """Record the frame in progress.

        finished: frames that are complete since the connection began. announced: bytes of the next
        one, as far as it has begun; 0 if it has not.
        """
        if self._frame == (finished, announced):
            return
        # The length of a frame arrives in several reads, too; it has one time in all.
        renewed = self._frame[0] != finished or not self._frame[1]
        self._frame = (finished, announced)
        self._give_back()
        if renewed or not announced:
            self._stop_timer()
        if announced and self._timer is None:
            self._start_timer()
        if announced > SMALL_BYTES:
            self._claim(announced)
        self._all.serve()

    def granted(self) -> None:
        """Go on reading: the frame's bytes are claimed."""
        assert self._waiting is not None
        self._claimed, self._waiting = self._waiting.amount, None
        self._start_timer()
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Free what the connection claimed."""
        self._stop_timer()
        self._give_back()
        self._all.serve()

    def _claim(self, count: int) -> None:
        if self._all.shares.take(self._holder, count):
            self._claimed = count
            return
        # The time spent waiting for others' frames is not the peer's.
        self._stop_timer()
        self._transport.pause_reading()
        self._waiting = self._all.shares.wait(self, self._holder, count)

    def _give_back(self) -> None:
        if self._waiting is not None:
            self._all.shares.withdraw(self._waiting)
            self._waiting = None
        if self._claimed:
            self._all.shares.give_back(self._holder, self._claimed)
            self._claimed = 0

    def _start_timer(self) -> None:
        self._timer = self._loop.call_later(self._all.frame_s, self._late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
