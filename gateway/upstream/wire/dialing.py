"""Opening a connection: DNS, TCP and TLS, under one deadline."""

import asyncio
import socket
import ssl
from collections.abc import Callable

from gateway.upstream.origin import Origin
from gateway.upstream.wire.connection import Connection
from schemas.errors import UpstreamTimeout, UpstreamUnreachable


class Dialer:
    """Opens connections to one origin; each gets its protocol from `make`."""

    def __init__(
        self,
        origin: Origin,
        context: ssl.SSLContext | None,
        make: Callable[[], Connection],
        *,
        upstream: str,
    ) -> None:
        self._origin = origin
        self._context = context
        self._make = make
        self._upstream = upstream

    async def dial(self, by: float) -> Connection:
        """Raises UpstreamUnreachable, or UpstreamTimeout at `by`; cancelled, it closes."""
        connection = self._make()
        scope = asyncio.timeout_at(by)
        try:
            async with scope:
                await self._connect(connection)
        except OSError as exc:
            connection.abort()
            if isinstance(exc, TimeoutError) and scope.expired():
                problem = "no connection in time (DNS, TCP and TLS together)"
                raise UpstreamTimeout(problem, upstream=self._upstream) from exc
            raise UpstreamUnreachable(self._reason(exc), upstream=self._upstream) from exc
        except asyncio.CancelledError:
            connection.abort()
            raise
        return connection

    async def _connect(self, connection: Connection) -> None:
        origin, loop = self._origin, asyncio.get_running_loop()
        await loop.create_connection(
            lambda: connection,
            origin.host,
            origin.port,
            ssl=self._context,
            server_hostname=origin.host if self._context is not None else None,
        )

    def _reason(self, exc: OSError) -> str:
        where = f"{self._origin.host} port {self._origin.port}"
        match exc:
            case socket.gaierror():
                return f"no address for {self._origin.host}: {exc.strerror}"
            case ssl.SSLCertVerificationError():
                return f"the certificate of {where} is not accepted: {exc.verify_message}"
            case ssl.SSLError():
                return f"no TLS with {where}: {exc.reason or exc}"
            case _:
                return f"no connection to {where}: {exc.strerror or exc}"
