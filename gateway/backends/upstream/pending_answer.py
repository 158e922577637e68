"""The frames of one request to an engine, from the connection to the coroutine that reads them."""

from typing import Generic, TypeVar

from strowger_gateway.gateway.platform.eventloop.inline_task import Waiter, waiter_of
from strowger_gateway.gateway.platform.eventloop.turn import Turn
from strowger_gateway.local_engine.protocol.frames import Batch, Vectors
from strowger_gateway.schemas.errors import GatewayError

Part = TypeVar("Part", Batch, Vectors)


class PendingAnswer(Generic[Part]):
    """Queue of one request's frames, from the connection to the coroutine that reads them."""

    def __init__(self, id: int, turn: Turn) -> None:
        self.id = id
        self._turn = turn
        self.over = False
        self._parts: list[Part] = []
        self._error: GatewayError | None = None
        self._waiter: Waiter | None = None

    def put(self, part: Part) -> None:
        self._parts.append(part)
        self.over = self.over or part.last
        self._wake()

    def fail(self, error: GatewayError) -> None:
        """Fail after the frames that arrived before `error` have been read."""
        self._error, self.over = error, True
        self._wake()

    async def take(self, by: float) -> list[Part]:
        """Return all frames since the last call, at least one; [] at `by`, a loop time.

        Raises the error given to `fail`.
        """
        loop = self._turn.loop
        if not self._parts and self._error is None:
            self._waiter = waiter_of(self._turn)
            timer = loop.call_at(by, self._wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                timer.cancel()
        elif by <= loop.time():
            return []
        if not self._parts and self._error is not None:
            raise self._error
        parts, self._parts = self._parts, []
        return parts

    def _wake(self) -> None:
        if self._waiter is not None:
            self._waiter.wake()
