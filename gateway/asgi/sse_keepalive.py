"""Send keep-alive comments on silent streams, so that proxies do not cut them."""

import asyncio
from typing import Protocol

from gateway.clock import now


class Frames(Protocol):
    """The sending half of a stream. last_sent: by gateway.clock; busy: a send is in progress."""

    last_sent: float
    busy: bool

    async def frame(self, data: bytes) -> None: ...


class SseKeepAlive:
    """One timer for all streams: a sweep every quarter of `silence_s`, none without streams.

    silence_s may be changed at any time.
    """

    def __init__(self, silence_s: float) -> None:
        self.silence_s = silence_s
        self._streams: dict[Frames, bytes] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def add(self, stream: Frames, sign: bytes) -> None:
        """sign: a frame that the stream's clients ignore."""
        self._streams[stream] = sign
        if self._timer is None:
            self._wait()

    def remove(self, stream: Frames) -> None:
        self._streams.pop(stream, None)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.silence_s / 4, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        before = now() - self.silence_s
        for stream, sign in self._streams.items():
            if stream.last_sent <= before and not stream.busy:
                task = loop.create_task(stream.frame(sign))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
        if self._streams:
            self._wait()
