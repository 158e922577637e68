"""Interface of transports: one HTTP exchange with a provider, under absolute deadlines.

Two implementations: `gateway/backends/upstream/wire` (our HTTP/1.1 client, the hot path) and
`gateway/backends/upstream/httpx_transport.py` (httpx, for HTTP/2, proxies and everything off the
hot path). Times named `by` are readings of `asyncio.get_running_loop().time()`, in seconds.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.sending import UNWATCHED, Sending
from strowger_gateway.gateway.platform.room import Room
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.holdings import ANONYMOUS, LEVEL, Holder

Step = Callable[[bytes], float | None]
"""Takes a piece of a body. Returns the `by` of the next piece; `None` if it wants no more now."""


UNCLAIMED: Final = 64 * 1024
"""Bytes of an answer that are not claimed: fewer than each request takes anyway."""


class AnswerTooLarge(UpstreamBroken):
    """A limit of ours: no evidence about the backend, and another attempt costs as much again."""

    kind = None
    counts = False


class Reply(Protocol):
    """An answer whose head has arrived."""

    status: int
    headers: Mapping[str, str]
    """Lower-case names; a repeated header's values are joined by ", "."""

    async def chunk(self, by: float) -> bytes:
        """Return all body bytes that have arrived since the last call; wait if there are none.

        b"" is the end of the body. Raises UpstreamTimeout at `by`, UpstreamBroken when the
        connection is lost before the body's end.
        """
        ...

    async def relay(self, step: Step, by: float) -> None:
        """Call `step` with the pieces of the body as they arrive, until it returns `None`.

        Returns also at the body's end. Raises what `step` raises, and as `chunk`, which a caller
        calls next in any case: relaying may leave the end, or the error, to it.
        """
        ...

    async def body(self, by: float, limit: int, room: Room | None = None) -> bytes:
        """Return the rest of the body. Raises as `chunk`, and AnswerTooLarge over `limit` bytes.

        room: claims memory for a body of more than UNCLAIMED bytes, as it arrives.
        """
        ...

    async def aclose(self) -> None:
        """Reuse the connection if the body was read to its end, else close it.

        Idempotent; safe while being cancelled.
        """
        ...


class Transport(Protocol):
    """Connections to one provider."""

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
        """Send a request and wait for the head of its answer.

        lines: of the head besides `outbound.headers`, each with CRLF: the trace, and hints for an
        endpoint picker. They differ with each request and are not signed, because proxies on the
        way may replace them. sending: marked as read when the request is sent.
        holder, level: whose turn it is if connections are scarce, and how urgent the request is.

        Raises ConnectionsInUse past `connect_by` if none of our connections was free, else
        UpstreamUnreachable when nothing of the request was sent, UpstreamTimeout past
        `connect_by` or `head_by`, UpstreamBroken when the connection is lost after sending.
        Cancelling closes the connection.
        """
        ...

    async def aclose(self) -> None:
        """Close idle connections now and busy ones when their replies are closed."""
        ...


async def relay_chunks(reply: Reply, step: Step, by: float) -> None:
    """Reply.relay of the replies that have no faster one."""
    next_by: float | None = by
    while next_by is not None and (piece := await reply.chunk(next_by)):
        next_by = step(piece)
