"""What the exchange among replicas needs of the store between them, and how one is opened."""

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Literal, Protocol

from schemas.errors import InvalidConfig
from schemas.secret import Secret

Ask = Literal["take", "keep", "give"]
"""Of a lease: take it if nobody has it; keep or give it if it is one's own."""


class LinkAway(Exception):
    """What is between the replicas cannot be reached, refuses, or is slow."""


class Link(Protocol):
    """One replica's way to the others. Every call ends within seconds, or raises LinkAway."""

    @property
    def name(self) -> str:
        """This replica's own."""
        ...

    @property
    def where(self) -> str:
        """For the log; without a password."""
        ...

    async def swap(self, own: bytes, gone: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Put up one's own notice, take down those of `gone`, and read all, one's own too."""
        ...

    async def leases(self, asks: Sequence[tuple[Ask, str]]) -> list[bool]:
        """Whether each was done. A lease that is not kept ends after LEASE_S."""
        ...

    async def leave(self) -> None:
        """Take down one's own notice and close; never raises LinkAway."""
        ...


LEASE_S = 3.0


def open_link(url: Secret) -> Link:
    """To Redis, not connected yet.

    Raises InvalidConfig for an address that cannot be one, or without the extra it needs.
    """
    try:
        from gateway.coordination.redis_transport import RedisLink
    except ImportError as exc:
        raise InvalidConfig(
            (
                "store.redis_url: Redis needs redis-py; "
                "pip install 'strowger-gateway[redis]', or leave redis_url out",
            )
        ) from exc
    return RedisLink(url, token_hex(8))
