"""A transport whose requests carry credentials, and are sent once more where those had lapsed."""

from collections.abc import Mapping

import msgspec

from adapters.base import Outbound
from gateway.clock import now
from gateway.upstream.credentials.base import Credentials, Headers
from gateway.upstream.transport import Reply, Transport

UNAUTHENTICATED = 401
SHORTEST_SECRET = 8
"""Characters of a header's value below which it is not taken for a secret."""


class AuthorizedTransport:
    """See Transport. Owns `transport` and `credentials`.

    A 401 says that nothing was done, so the request may be sent again: once, and only if the
    credentials have something new to offer.
    """

    def __init__(self, transport: Transport, credentials: Credentials) -> None:
        self._transport = transport
        self._credentials = credentials

    async def exchange(self, outbound: Outbound, *, connect_by: float, head_by: float) -> Reply:
        """See Transport. Waiting for credentials is not taken from the time to connect."""
        to_connect = connect_by - now()
        reply, sent = await self._send(outbound, to_connect, head_by)
        if reply.status == UNAUTHENTICATED and self._credentials.rejected(sent):
            await reply.aclose()
            reply, sent = await self._send(outbound, to_connect, head_by)
        return reply if reply.status < 400 else RedactedReply(reply, sent)

    async def aclose(self) -> None:
        """See Transport."""
        await self._credentials.aclose()
        await self._transport.aclose()

    async def _send(
        self, outbound: Outbound, to_connect: float, head_by: float
    ) -> tuple[Reply, Headers]:
        headers = await self._credentials.headers(outbound, by=head_by)
        reply = await self._transport.exchange(
            with_headers(outbound, headers),
            connect_by=min(now() + to_connect, head_by),
            head_by=head_by,
        )
        return reply, headers


class RedactedReply:
    """See Reply. An error's body, in which a vendor may repeat what it was sent."""

    def __init__(self, reply: Reply, sent: Headers) -> None:
        self.status = reply.status
        self.headers: Mapping[str, str] = reply.headers
        self._reply = reply
        self._secrets = [
            secret.encode("latin-1")
            for _, value in sent
            for secret in (value, value.rpartition(" ")[2])
            if len(secret) >= SHORTEST_SECRET
        ]

    async def chunk(self, by: float) -> bytes:
        """See Reply. The whole body: a secret may lie across two pieces of it."""
        parts: list[bytes] = []
        while part := await self._reply.chunk(by):
            parts.append(part)
        return self._redacted(b"".join(parts))

    async def body(self, by: float, limit: int) -> bytes:
        """See Reply."""
        return self._redacted(await self._reply.body(by, limit))

    async def aclose(self) -> None:
        """See Reply."""
        await self._reply.aclose()

    def _redacted(self, body: bytes) -> bytes:
        for secret in self._secrets:
            body = body.replace(secret, b"***")
        return body


def with_headers(outbound: Outbound, headers: Headers) -> Outbound:
    """In place of those of the same name."""
    names = {name for name, _ in headers}
    kept = tuple(pair for pair in outbound.headers if pair[0].lower() not in names)
    return msgspec.structs.replace(outbound, headers=(*kept, *headers))
