"""Send head and body of an answer in one system call, and close without losing data.

ASGI servers write head and body separately.

When data arrives at a closed socket, the system discards what the client has not read yet: a
rejection of a body that is too large would be lost, and most clients would resend the body.
Hence `Lingering`. https://www.rfc-editor.org/rfc/rfc9112#section-9.6
"""

import asyncio
from collections.abc import Callable
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class CoalescingTransport:
    """A transport that gathers what is written in one iteration of the event loop.

    Everything but `write` and closing is delegated to the wrapped transport. Nothing waits: the
    gathered data goes out at the end of the iteration, before the loop sleeps.
    """

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether nothing can be written any more."""
        return self._transport.is_closing()

    def flush(self) -> None:
        """Write the gathered data now."""
        held = self._held
        if held:
            self._held = []
            if not self.is_closing():
                self._transport.write(held[0] if len(held) == 1 else b"".join(held))


class CoalescingHttp(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol over such a transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  as uvicorn's own
        super().connection_made(cast(asyncio.Transport, self.wrapped(transport)))

    def wrapped(self, transport: asyncio.Transport) -> CoalescingTransport:
        """Return the transport that answers are written to."""
        return CoalescingTransport(transport, self.loop)


def _gone() -> bool:
    """The connection is gone: nothing to wait for."""
    return False


class LingeringTransport(CoalescingTransport):
    """Its first `close` ends only our side if `lingers` reports that the client is not done.

    Then the client has to close, or a second call of `close`, or of `abort`, ends it.
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

    def release(self) -> None:
        """Break the reference cycle through the connection, which is gone."""
        self._lingers = _gone

    def is_closing(self) -> bool:
        """Return whether nothing can be sent any more."""
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
