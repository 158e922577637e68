"""One turn of the event loop, one batch: first everything is read, then worked on, then written.

The event loop reads all sockets that are ready and calls their protocols. These only parse and
queue work here. After the last read, the loop runs the queue as one callback; at its end, all
answers and requests leave, one write per socket. Nothing waits past its turn, and there is no
timer. Reading and writing in alternation would cost more: every write wakes a peer, which then
competes for the processor and answers before the next socket has been read.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Any, Protocol
from weakref import WeakKeyDictionary

_log = logging.getLogger("strowger.eventloop")

_MOST_BEFORE_WRITING = 16
"""Requests that are worked on before writing: those that begin or stream together do not wait for
the last of them, and backends work in parallel. 16 take 1 to 3 ms."""


class RunningCoroutine(Protocol):
    """A coroutine that runs without a task, as what it calls waits in it and cancels it."""

    def wake(self) -> None: ...

    def cancel(self) -> None: ...

    def uncancel(self) -> None: ...

    def __await__(self) -> Generator[Any, Any, None]: ...


class Turn:
    """The batch of one event loop.

    running: the coroutine that runs without a task at this moment.
    inline_finished, inline_started: coroutines that ended without ever needing a task, and all that
    were started: for the metrics.
    """

    __slots__ = (
        "__weakref__",
        "_scheduled",
        "_woken",
        "_work",
        "_writes",
        "inline_finished",
        "inline_started",
        "loop",
        "running",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.running: RunningCoroutine | None = None
        self.inline_started = self.inline_finished = 0
        self._work: list[Callable[[], None]] = []
        self._woken: list[Callable[[], None]] = []
        self._writes: dict[asyncio.Transport, bytes | list[bytes]] = {}
        self._scheduled = False

    def run_soon(self, call: Callable[[], None]) -> None:
        """Run `call` after the reads of this turn. Its exceptions are logged, never propagated."""
        self._work.append(call)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._run)

    def wake_soon(self, call: Callable[[], None]) -> None:
        """`run_soon` for what continues: it runs before what begins.

        Pieces of the same kind run one after the other, with their code in the processor's caches:
        in alternation, they take a fifth more time.
        """
        self._woken.append(call)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._run)

    def write(self, transport: asyncio.Transport, data: bytes) -> None:
        """Write at the end of this turn, in one system call with what else goes there."""
        writes = self._writes
        held = writes.get(transport)
        if held is None:
            writes[transport] = data
            if not self._scheduled:
                self._scheduled = True
                self.loop.call_soon(self._run)
        elif type(held) is list:
            held.append(data)
        else:
            writes[transport] = [held, data]  # pyright: ignore[reportArgumentType]  it is bytes

    def flush(self, transport: asyncio.Transport) -> None:
        """Write now what is held for this transport: it is about to be closed."""
        held = self._writes.pop(transport, None)
        if held is not None:
            _write(transport, held)

    def drop(self, transport: asyncio.Transport) -> None:
        """Forget what is held for this transport: it is gone."""
        self._writes.pop(transport, None)

    def _run(self) -> None:
        woken, work = self._woken, self._work
        while woken or work:
            if woken:
                self._call_all(woken)
            if work:
                self._call_all(work)
        self._scheduled = False
        if self._writes:
            self._write_all()

    def _call_all(self, work: list[Callable[[], None]]) -> None:
        # Work that is queued during this loop runs in this turn: the list grows as it is read.
        for number, call in enumerate(work, 1):
            try:
                call()
            except (Exception, asyncio.CancelledError):  # noqa: BLE001  one bug never stops others
                _log.exception("internal error in the event loop; other requests continue")
            if number % _MOST_BEFORE_WRITING == 0:
                self._write_all()
        work.clear()

    def _write_all(self) -> None:
        writes = self._writes
        if not writes:
            return
        self._writes = {}
        for transport, held in writes.items():
            try:
                if not transport.is_closing():
                    transport.write(b"".join(held) if type(held) is list else held)  # pyright: ignore[reportArgumentType]
            except Exception:  # noqa: BLE001  one connection's bug never stops the others
                _log.exception("internal error while writing; other connections continue")


def _write(transport: asyncio.Transport, held: bytes | list[bytes]) -> None:
    if not transport.is_closing():
        transport.write(b"".join(held) if type(held) is list else held)  # pyright: ignore[reportArgumentType]


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turn] = WeakKeyDictionary()


def current_turn() -> Turn:
    """Return the batch of the running event loop. For connections, once each: it is a look-up."""
    loop = asyncio.get_running_loop()
    turn = _turns.get(loop)
    if turn is None:
        turn = _turns[loop] = Turn(loop)
    return turn
