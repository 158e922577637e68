"""An answer as the gateway reads it; it holds its connection until it is closed."""

from collections.abc import Mapping

from gateway.upstream.wire.connection import Connection
from schemas.errors import GatewayError, UpstreamBroken


class WireReply:
    """See gateway.upstream.transport.Reply."""

    __slots__ = ("_connection", "headers", "status")

    def __init__(self, connection: Connection) -> None:
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers
        self._connection: Connection | None = connection

    async def chunk(self, by: float) -> bytes:
        """See Reply."""
        if self._connection is None:
            raise GatewayError("an answer was read after it had been closed")
        return await self._connection.read(by)

    async def body(self, by: float, limit: int) -> bytes:
        """See Reply."""
        connection = self._connection
        if connection is None:
            raise GatewayError("an answer was read after it had been closed")
        parts: list[bytes] = []
        size = 0
        while part := await connection.read(by):
            size += len(part)
            if size > limit:
                problem = f"the answer is over {limit} bytes"
                raise UpstreamBroken(problem, upstream=connection.upstream)
            parts.append(part)
            if connection.complete and not connection.buffered:
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def aclose(self) -> None:
        """See Reply."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release()
