"""HTTP/1.1 exchanges with one origin over pooled connections, and reading of answers."""

import asyncio
from collections.abc import Mapping

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.origin import origin_of
from strowger_gateway.gateway.backends.upstream.sending import UNWATCHED, Sending
from strowger_gateway.gateway.backends.upstream.tls import TlsContexts
from strowger_gateway.gateway.backends.upstream.transport import UNCLAIMED, AnswerTooLarge, Step
from strowger_gateway.gateway.backends.upstream.wire.connection import HttpConnection
from strowger_gateway.gateway.backends.upstream.wire.deadlines import Deadlines
from strowger_gateway.gateway.backends.upstream.wire.dialing import Dialer, Resolve, resolve
from strowger_gateway.gateway.backends.upstream.wire.exchange_state import ExchangeState
from strowger_gateway.gateway.backends.upstream.wire.faults import StaleConnection
from strowger_gateway.gateway.backends.upstream.wire.http_message import Limits, RequestHeads
from strowger_gateway.gateway.backends.upstream.wire.pool import Pool
from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.gateway.platform.room import Room
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.holdings import ANONYMOUS, LEVEL, Holder


class WireReply:
    """See strowger_gateway.gateway.backends.upstream.transport.Reply."""

    __slots__ = ("_connection", "_ended", "headers", "status")

    def __init__(self, connection: HttpConnection) -> None:
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers
        self._connection: HttpConnection | None = connection
        self._ended = False  # `body` has read everything and given the connection back

    async def chunk(self, by: float) -> bytes:
        """See Reply."""
        if self._ended:
            return b""
        if self._connection is None:
            raise GatewayError("the answer was read after it was closed")
        return await self._connection.read(by)

    async def relay(self, step: Step, by: float) -> None:
        """See Reply."""
        if self._connection is None:
            raise GatewayError("the answer was read after it was closed")
        await self._connection.relay(step, by)

    async def body(self, by: float, limit: int, room: Room | None = None) -> bytes:
        """See Reply."""
        connection = self._connection
        if connection is None:
            raise GatewayError("the answer was read after it was closed")
        parts: list[bytes] = []
        size = claimed = 0
        while part := await connection.read(by):
            size += len(part)
            if size > limit:
                problem = f"the answer is over {limit} bytes"
                raise AnswerTooLarge(problem, upstream=connection.upstream)
            if size > UNCLAIMED and room is not None:
                room.buffer(size - claimed)
                claimed = size
            parts.append(part)
            if connection.state is ExchangeState.COMPLETE and not connection.buffered:
                # The connection is free for the next exchange before this body is decoded.
                self._connection, self._ended = None, True
                connection.release()
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def aclose(self) -> None:
        """See Reply."""
        connection, self._connection = self._connection, None
        self._ended = False
        if connection is not None:
            connection.release()


IDLE_S = 60.0
"""Below the usual limits of servers and load balancers, so that mostly our side closes."""

_LIMITS = Limits()


class WireTransport:
    """See strowger_gateway.gateway.backends.upstream.transport.Transport. For use in one event
    loop.

    base_url:        only scheme, host and port are used; Outbound.target has the path.
    name:            the provider's name, which starts every error message.
    max_connections: further exchanges wait for their turns, up to their `connect_by`.
    idle_s:          seconds for which an unused connection is kept.
    contexts:        TLS contexts to share with other transports.
    resolve:         finds the addresses; certificates are those of the base_url's host.
    Raises InvalidConfig for a base_url or TLS files that cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        *,
        name: str,
        tls: Tls | None = None,
        max_connections: int = 512,
        idle_s: float = IDLE_S,
        limits: Limits = _LIMITS,
        contexts: TlsContexts | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        origin = origin_of(base_url, upstream=name)
        context = None
        if origin.scheme == "https":
            context = (contexts or TlsContexts()).http1(tls, upstream=name)
        self._name = name
        self._limits = limits
        self._heads = RequestHeads(origin.authority)
        self._deadlines = Deadlines()
        self._pool = Pool(
            Dialer(origin, context, self._connection, upstream=name, resolve=resolve).dial,
            self._deadlines,
            upstream=name,
            maximum=max_connections,
            idle_s=idle_s,
        )

    def __repr__(self) -> str:
        return f"WireTransport({self._name!r})"

    async def exchange(
        self,
        outbound: Outbound,
        *,
        connect_by: float,
        head_by: float,
        lines: bytes = b"",
        sending: Sending = UNWATCHED,
        holder: Holder = ANONYMOUS,
        level: int = LEVEL,
    ) -> WireReply:
        """See Transport."""
        request = self._heads.render(outbound, lines)
        head_only = outbound.method == "HEAD"
        # The common case first, without a coroutine: an idle connection.
        connection = self._pool.take_idle(holder) or await self._pool.acquire(
            connect_by, holder, level, sending
        )
        sending.unread = False
        try:
            await connection.send(request, head_by, head_only=head_only)
        except StaleConnection:
            sending.unread = True
            connection = await self._pool.replace(connection, connect_by)
            sending.unread = False
            await connection.send(request, head_by, head_only=head_only)
        return WireReply(connection)

    async def aclose(self) -> None:
        """See Transport."""
        self._pool.close()
        await asyncio.sleep(0)  # aborted sockets are closed in the loop's next iteration

    def _connection(self) -> HttpConnection:
        return HttpConnection(self._name, self._pool, self._deadlines, self._limits)
