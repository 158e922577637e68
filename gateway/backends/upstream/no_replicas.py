"""The transport of a backend none of whose replicas is known."""

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.sending import UNWATCHED, Sending
from strowger_gateway.gateway.backends.upstream.transport import Reply
from strowger_gateway.schemas.errors import UpstreamUnreachable
from strowger_gateway.schemas.holdings import ANONYMOUS, LEVEL, Holder


class NoReplicas:
    """See strowger_gateway.gateway.backends.upstream.transport.Transport. Nothing is ever sent.

    A failure does not count for the circuit breaker: it says nothing about the replicas to come.
    """

    def __init__(self, name: str) -> None:
        self._name = name

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
        """See Transport."""
        error = UpstreamUnreachable("no replica is known", upstream=self._name)
        error.counts = False
        raise error

    async def aclose(self) -> None:
        """See Transport."""
