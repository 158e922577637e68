"""What the server needs of the application that it serves."""

from collections.abc import Mapping
from typing import Protocol

from litestar.types import Receive, Scope, Send

from strowger_gateway.gateway.server.asgi.exchange import HotExchange


class HotHandler(Protocol):
    """Answers requests on the hot path, directly on an exchange."""

    async def answer(self, exchange: HotExchange) -> None:
        """Answer one request. Runs without a task: see
        gateway/platform/eventloop/inline_task.py.
        """
        ...


class Application(Protocol):
    """An ASGI application that answers some of its paths without ASGI.

    hot: handlers by path, as far as the path is fixed.
    """

    @property
    def hot(self) -> Mapping[str, HotHandler]: ...

    def find_hot(self, path: str) -> HotHandler | None:
        """Return the handler of a path on the hot path, fixed or with a name in it."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...
