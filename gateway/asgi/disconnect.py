"""Detect that the client disconnects, at any moment, and stop the work immediately."""

import asyncio
from collections.abc import Generator
from types import TracebackType
from typing import cast

from litestar.types import Message, Receive

from schemas.errors import GatewayError

_Waiting = Generator["asyncio.Future[object]", None, Message]


class ClientGone(GatewayError):
    """The client disconnected. It receives no answer; the status is for the log alone."""

    status = 499
    code = "client_closed_request"


class DisconnectGuard:
    """While entered, a disconnect cancels the current task, and the block exits with ClientGone.

    Enter it after the body was read: from then on `receive` can only report the disconnect.
    Call `disarm` before the last byte of the answer; after that a disconnect is the normal end.

    `receive` is not awaited by a task of its own, which would cost more than the rest of the
    endpoint, but stepped by hand: it runs up to the future that it waits for, and continues in
    that future's callback. https://peps.python.org/pep-0492/#await-expression
    """

    __slots__ = ("_armed", "_future", "_receive", "_task", "_waiting", "gone")

    def __init__(self, receive: Receive) -> None:
        self.gone = False
        self._receive = receive
        self._armed = True

    def __enter__(self) -> "DisconnectGuard":
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._future: asyncio.Future[object] | None = None
        self._waiting = self._listen()
        self._advance(None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._armed = False
        if self._future is not None:
            self._future.remove_done_callback(self._advance)
        self._waiting.close()
        if self.gone and isinstance(error, asyncio.CancelledError):
            self._task.uncancel()
            raise ClientGone("the client closed the connection") from error

    def disarm(self) -> None:
        self._armed = False

    def _listen(self) -> _Waiting:
        return cast(_Waiting, self._receive().__await__())

    def _advance(self, done: "asyncio.Future[object] | None") -> None:
        """Step `receive` until it waits again or reports the disconnect."""
        while self._armed:
            try:
                self._future = next(self._waiting)
            except StopIteration as end:
                if end.value["type"] == "http.disconnect":
                    self._future = None
                    self.gone = True
                    self._task.cancel()
                    return
                self._waiting = self._listen()
            else:
                self._future.add_done_callback(self._advance)
                return
