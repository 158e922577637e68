"""What a provider's requests are signed with when a fixed key is not enough."""

from typing import Protocol

from adapters.base import Outbound

Headers = tuple[tuple[str, str], ...]


class Credentials(Protocol):
    """One account at one provider. Safe for concurrent use.

    Entra and Vertex tokens look at nothing of the request; AWS signatures cover all of it.
    """

    async def headers(self, outbound: Outbound, *, by: float) -> Headers:
        """What to add to this request, in place of headers of the same name; lower-case names.

        Waits only while there is nothing valid, and then until `by`, loop time. Raises
        UpstreamRefused where the provider does not accept us, UpstreamUnreachable where it
        cannot be asked, UpstreamTimeout where it takes too long.
        """
        ...

    def rejected(self, headers: Headers, status: int, body: bytes) -> bool:
        """The provider answered 401 or 403 to these headers; true: asking again may help."""
        ...

    async def aclose(self) -> None:
        """Stop refreshing."""
        ...
