"""Noticing that the client has gone, at any moment, and stopping the work at once."""

import asyncio
from types import TracebackType

from litestar.types import Receive

from schemas.errors import GatewayError


class ClientGone(GatewayError):
    """The client hung up. Nobody reads an answer; the status is for the log alone."""

    status = 499
    code = "client_closed_request"


class HangUp:
    """While entered, a disconnect cancels the current task and leaves as ClientGone.

    To be entered once the body has been read: from then on `receive` can only tell of the end.
    `disarm` before the answer's last byte, after which a disconnect is the normal end.
    """

    __slots__ = ("_armed", "_receive", "_task", "_watcher", "gone")

    def __init__(self, receive: Receive) -> None:
        self.gone = False
        self._receive = receive
        self._armed = True

    def __enter__(self) -> "HangUp":
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._watcher = asyncio.get_running_loop().create_task(self._watch())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._armed = False
        self._watcher.cancel()
        if self.gone and isinstance(error, asyncio.CancelledError):
            self._task.uncancel()
            raise ClientGone("the client closed the connection") from error

    def disarm(self) -> None:
        self._armed = False

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._armed:
            self.gone = True
            self._task.cancel()
