"""The interface of the store between the gateways."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

Ask = Literal["take", "keep", "give"]
"""Operations on a lease: take it if it is free; keep (extend) or give (release) our own."""


class TransportUnavailable(Exception):
    """The store between the gateways is unreachable, rejects commands, or is too slow."""


class ScriptRunner(Protocol):
    """A connection that runs commands in order.

    sharded: all keys of one command must have the same hash tag, as in a Redis Cluster. Then only
    commands with the same tag run in order.
    """

    @property
    def sharded(self) -> bool: ...

    async def run(self, commands: Sequence[tuple[str | bytes, ...]]) -> list[object]:
        """Return the answers. Raises TransportUnavailable, within seconds."""
        ...


class GatewayTransport(Protocol):
    """One gateway's connection to the others.

    Every call returns within seconds or raises TransportUnavailable.
    """

    @property
    def name(self) -> str:
        """The name of this gateway."""
        ...

    @property
    def where(self) -> str:
        """The address, without a password, for log messages."""
        ...

    async def exchange(self, own: bytes, gone: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Write our own notice, remove those of `gone`, and return all notices, ours included."""
        ...

    async def leases(self, asks: Sequence[tuple[Ask, str]]) -> list[bool]:
        """Run the operations; return whether each was done.

        A lease that is not kept ends after LEASE_S.
        """
        ...

    async def leave(self) -> None:
        """Remove our own notice and close; never raises TransportUnavailable."""
        ...


LEASE_S = 3.0
