"""The interface of the store between the replicas."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

Ask = Literal["take", "keep", "give"]
"""Operations on a lease: take it if it is free; keep (extend) or give (release) one's own."""


class TransportUnavailable(Exception):
    """The store between the replicas is unreachable, rejects commands, or is too slow."""


class ReplicaTransport(Protocol):
    """One replica's connection to the others.

    Every call returns within seconds or raises TransportUnavailable.
    """

    @property
    def name(self) -> str:
        """This replica's own."""
        ...

    @property
    def where(self) -> str:
        """For the log; without a password."""
        ...

    async def exchange(self, own: bytes, gone: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Put up one's own notice, take down those of `gone`, and read all, one's own too."""
        ...

    async def leases(self, asks: Sequence[tuple[Ask, str]]) -> list[bool]:
        """Whether each was done. A lease that is not kept ends after LEASE_S."""
        ...

    async def leave(self) -> None:
        """Take down one's own notice and close; never raises TransportUnavailable."""
        ...


LEASE_S = 3.0
