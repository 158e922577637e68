"""Queue of one request's deltas, read by the task that turns them into events."""

import asyncio

from strowger_gateway.local_engine.execution.jobs import Delta


class DeltaQueue:
    """The deltas of one request, between the step that brought them and the task that reads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._deltas: list[tuple[float, Delta]] = []
        self._waiter: asyncio.Future[None] | None = None

    def put(self, delta: Delta, at: float) -> None:
        """at: when its step ended, in seconds of `time.monotonic`."""
        self._deltas.append((at, delta))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> list[tuple[float, Delta]]:
        """Return all deltas since the last call with their times; waits for at least one.

        One reader only.
        """
        while not self._deltas:
            self._waiter = self._loop.create_future()
            await self._waiter
        deltas, self._deltas = self._deltas, []
        return deltas
