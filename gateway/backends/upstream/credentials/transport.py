"""A transport that adds credentials to requests, and retries once if they have lapsed."""

from collections.abc import Mapping

import msgspec

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.credentials.base import Credentials, Headers
from strowger_gateway.gateway.backends.upstream.error_body import ERROR_BODY_BYTES, error_body
from strowger_gateway.gateway.backends.upstream.sending import UNWATCHED, Sending
from strowger_gateway.gateway.backends.upstream.transport import (
    Reply,
    Step,
    Transport,
    relay_chunks,
)
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.room import Room
from strowger_gateway.schemas.holdings import ANONYMOUS, LEVEL, Holder

REFUSALS = frozenset({401, 403})
SHORTEST_SECRET = 8
"""Minimum characters of a header's value to be treated as a secret."""


class AuthorizedTransport:
    """See Transport. Owns `transport` and `credentials`.

    A rejection means that nothing was done, so the request may be sent again: once, and only if
    the credentials have changed.
    """

    def __init__(self, transport: Transport, credentials: Credentials) -> None:
        self._transport = transport
        self._credentials = credentials

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
    ) -> Reply:
        """See Transport. Waiting for credentials does not count towards the time to connect.

        The body of an error is read here, until `head_by`.
        """
        to_connect, turn = connect_by - now(), (holder, level)
        reply, sent = await self._send(outbound, to_connect, head_by, lines, sending, turn)
        reply = await _shown(reply, sent, head_by)
        if reply.status not in REFUSALS:
            return reply
        body = await reply.body(head_by, ERROR_BODY_BYTES)
        if not self._credentials.rejected(sent, reply.status, body):
            return reply
        sending.unread = True
        reply, sent = await self._send(outbound, to_connect, head_by, lines, sending, turn)
        return await _shown(reply, sent, head_by)

    async def aclose(self) -> None:
        """See Transport."""
        await self._credentials.aclose()
        await self._transport.aclose()

    async def _send(
        self,
        outbound: Outbound,
        to_connect: float,
        head_by: float,
        lines: bytes,
        sending: Sending,
        turn: tuple[Holder, int],
    ) -> tuple[Reply, Headers]:
        headers = await self._credentials.headers(outbound, by=head_by)
        reply = await self._transport.exchange(
            with_headers(outbound, headers),
            connect_by=min(now() + to_connect, head_by),
            head_by=head_by,
            lines=lines,
            sending=sending,
            holder=turn[0],
            level=turn[1],
        )
        return reply, headers


class ReadReply:
    """See Reply. An answer whose body was already read."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self._body = body
        self._given = False

    async def chunk(self, by: float) -> bytes:
        """See Reply."""
        given, self._given = self._given, True
        return b"" if given else self._body

    async def relay(self, step: Step, by: float) -> None:
        """See Reply."""
        await relay_chunks(self, step, by)

    async def body(self, by: float, limit: int, room: Room | None = None) -> bytes:
        """See Reply. May be called repeatedly."""
        return self._body

    async def aclose(self) -> None:
        """See Reply."""


async def _shown(reply: Reply, sent: Headers, by: float) -> Reply:
    """Mask the sent credentials in an error's body, which vendors may repeat."""
    if reply.status < 400:
        return reply
    try:
        body = await error_body(reply, by)
    finally:
        await reply.aclose()
    for _, value in sent:
        for secret in (value, value.rpartition(" ")[2]):
            if len(secret) >= SHORTEST_SECRET:
                body = body.replace(secret.encode("latin-1"), b"***")
    return ReadReply(reply.status, reply.headers, body)


def with_headers(outbound: Outbound, headers: Headers) -> Outbound:
    """Add headers, replacing those of the same name."""
    names = {name for name, _ in headers}
    kept = tuple(pair for pair in outbound.headers if pair[0].lower() not in names)
    return msgspec.structs.replace(outbound, headers=(*kept, *headers))
