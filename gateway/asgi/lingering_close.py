"""Closing a connection in stages, so that a client which is still sending hears its answer.

What arrives at a socket that is closed makes the system take back what the client has not read
yet: a refusal of a body that is too large would be lost, and most clients send it whole again.
https://www.rfc-editor.org/rfc/rfc9112#section-9.6
"""

import asyncio
from collections.abc import Callable

from gateway.asgi.write_coalescing import Coalescing


def _gone() -> bool:
    """There is nobody to wait for."""
    return False


class Lingering(Coalescing):
    """Its first `close` ends our side alone, where `lingers` says that the client is not done.

    Then the client has to close, or somebody calls `close` once more, or `abort`.
    """

    __slots__ = ("_left", "_lingers")

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        lingers: Callable[[], bool],
    ) -> None:
        super().__init__(transport, loop)
        self._left = False
        self._lingers = lingers

    def let_go(self) -> None:
        """The connection is gone, and no circle through it is left to the collector."""
        self._lingers = _gone

    def is_closing(self) -> bool:
        """Nothing can be said any more."""
        return self._left or self._transport.is_closing()

    def close(self) -> None:
        transport = self._transport
        if self._left or transport.is_closing() or not transport.can_write_eof():
            super().close()
        elif self._lingers():
            self.flush()
            self._left = True
            transport.write_eof()
        else:
            super().close()
