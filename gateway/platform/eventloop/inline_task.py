"""Run a coroutine without a task, until it waits for something that only a task can wait for.

Most requests wait for nothing but their backend's answer. A task would cost them its creation, a
future per wait, and a callback of the event loop per wake-up; instead, the coroutine is stepped by
hand. It parks on `Turn`'s waiter, and the connection that has news wakes it within the same turn.
As soon as it waits for anything else (a lock, a timer, a thread), an asyncio task adopts it, in the
middle of its run, and the coroutine does not notice.

What needs a task before it waits (`asyncio.timeout`, a task group) has to `await in_task()` first.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Protocol

from strowger_gateway.gateway.platform.eventloop.turn import Turn, current_turn

_log = logging.getLogger("strowger.eventloop")


class Waiter(Protocol):
    """What one coroutine waits for; it may be woken more than once."""

    def wake(self) -> None: ...

    def __await__(self) -> Generator[Any, Any, None]: ...


class InlineTask:
    """A coroutine that runs without a task, until a task adopts it. `start` runs it.

    It is its own waiter, because a coroutine waits for one thing at a time.
    """

    __slots__ = (
        "_cancelled",
        "_coroutine",
        "_failed",
        "_parked",
        "_queued",
        "_task",
        "_turn",
        "done",
    )

    def __init__(
        self, turn: Turn, coroutine: Coroutine[Any, Any, None], failed: Callable[[], None]
    ) -> None:
        """failed: called if the coroutine ends with an exception, or was cancelled."""
        self.done = False
        self._failed = failed
        self._turn = turn
        self._coroutine = coroutine
        self._task: asyncio.Task[None] | None = None
        self._parked = self._queued = self._cancelled = False

    def start(self) -> None:
        """Run it up to its first wait."""
        self._turn.inline_started += 1
        self._step()

    def wake(self) -> None:
        """Continue it after the reads of this turn."""
        if not self._queued:
            self._queued = True
            self._turn.wake_soon(self._resume)

    def cancel(self) -> None:
        """Raise CancelledError at its current wait, or at its next one if it is running."""
        if self._task is not None:
            self._task.cancel()
        elif not self.done:
            self._cancelled = True
            if self._parked:
                self.wake()

    def uncancel(self) -> None:
        """The cancellation was handled: see asyncio.Task.uncancel."""
        if self._task is not None:
            self._task.uncancel()
        self._cancelled = False

    def __await__(self) -> Generator[Any, Any, None]:
        yield self

    def _resume(self) -> None:
        self._queued = False
        if self._parked:
            self._step()

    def _step(self) -> None:
        coroutine, turn = self._coroutine, self._turn
        self._parked = False
        turn.running = self
        try:
            if self._cancelled:
                self._cancelled = False
                waited = coroutine.throw(asyncio.CancelledError())
            else:
                waited = coroutine.send(None)
            if waited is self:
                self._parked = True
                if self._cancelled:
                    self.wake()
                return
        except StopIteration:
            self._close()
            turn.inline_finished += 1
            return
        except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001  a bug, logged
            self._end_badly(error)
            return
        finally:
            turn.running = None
        self._task = turn.loop.create_task(_Adopted(coroutine, waited))
        self._task.add_done_callback(self._end)
        if self._cancelled:
            self._task.cancel()

    def _end(self, task: asyncio.Task[None]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self._close()
        else:
            self._end_badly(error)

    def _end_badly(self, error: BaseException) -> None:
        failed = self._failed
        self._close()
        if not isinstance(error, asyncio.CancelledError):
            _log.error("internal error in a request", exc_info=error)
        failed()

    def _close(self) -> None:
        """Break the reference cycle through what can cancel it."""
        self.done = True
        self._coroutine, self._failed, self._task = _ENDED, _nothing, None


class _Adopted(Coroutine[Any, Any, None]):
    """A coroutine in the middle of its run, for a task; `waited` is what it is waiting for."""

    __slots__ = ("_coroutine", "_waited")

    def __init__(self, coroutine: Coroutine[Any, Any, None], waited: object) -> None:
        self._coroutine = coroutine
        self._waited: object = (waited,)

    def send(self, value: object) -> object:
        waited = self._waited
        if waited is not None:
            self._waited = None
            return waited[0]  # pyright: ignore[reportIndexIssue, reportUnknownVariableType]
        return self._coroutine.send(value)

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> object:
        self._waited = None
        return self._coroutine.throw(typ if isinstance(typ, BaseException) else typ())

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise RuntimeError("only a task can run it")


async def _ended() -> None:
    """The coroutine of those that have ended."""


_ENDED = _ended()
_ENDED.close()


def _nothing() -> None:
    """The `failed` of those that have ended."""


class FutureWaiter:
    """The waiter of a coroutine that runs in a task."""

    __slots__ = ("_future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._future: asyncio.Future[None] = loop.create_future()

    def wake(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def __await__(self) -> Generator[Any, Any, None]:
        return self._future.__await__()


def waiter_of(turn: Turn) -> Waiter:
    """Return what the running coroutine can wait for; `await` it at once."""
    return turn.running or FutureWaiter(turn.loop)


async def in_task() -> None:
    """Continue in a task, which `asyncio.timeout` and task groups require."""
    if current_turn().running is not None:
        await asyncio.sleep(0)


class Canceller(Protocol):
    """What can be cancelled: a task, or a coroutine without one."""

    def cancel(self) -> object: ...

    def uncancel(self) -> object: ...


def canceller_in(turn: Turn | None) -> Canceller:
    """Return what cancels the running coroutine, even after a task has adopted it.

    turn: of the connection that the coroutine serves; `None` if another server runs it.
    """
    if turn is not None and turn.running is not None:
        return turn.running
    task = asyncio.current_task()
    assert task is not None
    return task
