"""Keep streams alive while no content arrives: send their head if it is late, then comments.

Proxies cut a silent connection: nginx and AWS's load balancer after 60 s, Cloudflare after 100.
"""

import asyncio
import math
from collections.abc import Coroutine
from typing import Final, Literal, Protocol

from strowger_gateway.gateway.platform.clock import now

EARLIEST_S: Final = 15.0
"""The shortest of the surfaces' own times before an early head, seconds."""


CommitAfter = float | Literal["auto"] | None
"""`server.commit_after_s`."""


def begin_after(setting: CommitAfter, own_s: float) -> float:
    """Return the seconds without content after which a head is sent; infinity for never.

    own_s: the surface's own time, for `auto`.
    """
    if setting == "auto":
        return own_s
    return math.inf if setting is None else setting


class Frames(Protocol):
    """The sending half of a stream.

    started: its head has been sent. last_sent: by gateway/platform/clock.py; busy: a send is in
    progress.
    beginning: the task that sends the head early; `None` if there is none.
    """

    started: bool
    last_sent: float
    busy: bool
    beginning: "asyncio.Task[None] | None"

    def may_begin(self, at: float, after_s: float) -> bool:
        """Whether its head may be sent now, `after_s` after the request, without content."""
        ...

    async def begin(self, sign: bytes) -> None:
        """Send the head and a sign of life."""
        ...

    async def frame(self, data: bytes) -> None: ...


class SseKeepAlive:
    """One timer for all streams: it sweeps every quarter of the shorter time, if there are any."""

    def __init__(self, silence_s: float, commit_after_s: CommitAfter) -> None:
        self._streams: dict[Frames, tuple[bytes, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self.configure(silence_s, commit_after_s)

    def configure(self, silence_s: float, commit_after_s: CommitAfter) -> None:
        """Change `server.sse_keepalive_s` and `server.commit_after_s`."""
        self._silence_s = silence_s
        self._commit_after_s: CommitAfter = commit_after_s
        self._every_s = min(silence_s, begin_after(commit_after_s, EARLIEST_S)) / 4

    def add(self, stream: Frames, sign: bytes, own_s: float) -> None:
        """Watch a stream until `remove`.

        sign: a frame that its clients ignore. own_s: see `begin_after`.
        """
        self._streams[stream] = sign, own_s
        if self._timer is None:
            self._wait()

    def remove(self, stream: Frames) -> None:
        self._streams.pop(stream, None)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        at = now()
        before = at - self._silence_s
        for stream, (sign, own_s) in self._streams.items():
            if not stream.started:
                after_s = begin_after(self._commit_after_s, own_s)
                if stream.beginning is None and stream.may_begin(at, after_s):
                    stream.beginning = self._send(stream.begin(sign))
            elif stream.last_sent <= before and not stream.busy:
                self._send(stream.frame(sign))
        if self._streams:
            self._wait()

    def _send(self, sending: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(sending)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return task
