"""Credentials that sign a provider's requests when a fixed key is not enough."""

from typing import Protocol

from strowger_gateway.adapters.base import Outbound

Headers = tuple[tuple[str, str], ...]


class Credentials(Protocol):
    """One account at one provider. Safe for concurrent use.

    Entra and Vertex tokens ignore the request; AWS signatures cover all of it.
    """

    async def headers(self, outbound: Outbound, *, by: float) -> Headers:
        """Return headers for this request; they replace those of the same name. Lower-case names.

        Waits only while there is nothing valid, and then until `by`, loop time. Raises
        UpstreamRefused if the provider rejects our credentials, UpstreamUnreachable if it cannot
        be reached, UpstreamTimeout if it takes too long.
        """
        ...

    def rejected(self, headers: Headers, status: int, body: bytes) -> bool:
        """Handle a 401 or 403 from the provider for these headers; true: a retry may help."""
        ...

    async def aclose(self) -> None:
        """Stop refreshing."""
        ...
