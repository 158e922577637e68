"""Limit the requests and the body memory of one API key while other keys exist."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from strowger_gateway.gateway.config.schema.config import ServerConfig
from strowger_gateway.gateway.server.asgi.large_bodies import LargeBodyQueue
from strowger_gateway.schemas.errors import Throttled, Unavailable
from strowger_gateway.schemas.holdings import Holder

T = TypeVar("T")

_UNBOUNDED = 1 << 30
_MANY = 10_000
"""From this number on, callers without a request are dropped before one is added."""


class KeyUsage:
    """What one key's requests use at the moment. in_flight: requests; buffered: bytes."""

    __slots__ = ("buffered", "in_flight")

    def __init__(self) -> None:
        self.in_flight = 0
        self.buffered = 0


class KeyShares:
    """The requests in flight and the body memory of this process, by API key.

    Each process counts its own requests, and limits them to what the other processes leave.

    buffered: bytes of request bodies in memory. others_buffered: of the other processes, as last
    reported. room: requests for which this process has connections.
    """

    __slots__ = ("_usages", "bodies", "buffered", "others_buffered", "room")

    def __init__(self, bodies: LargeBodyQueue) -> None:
        """bodies: works on what is large."""
        self._usages: dict[str, KeyUsage] = {}
        self.bodies = bodies
        self.buffered = 0
        self.others_buffered = 0
        self.room = _UNBOUNDED

    def hold(
        self, key: str, server: ServerConfig, *, several: bool, others_in_flight: int
    ) -> "Slot":
        """Reserve a slot for a request of this key; close it when the request ends.

        several: other keys exist, so the key is limited to its share.
        others_in_flight: requests of the other processes.

        Raises Throttled if the key already has its share of `max_in_flight`.
        """
        usage = self._usages.get(key)
        if usage is None:
            if len(self._usages) >= _MANY:
                self._drop_idle()
            usage = self._usages[key] = KeyUsage()
        most = server.max_in_flight - others_in_flight
        if several and usage.in_flight >= server.max_share_per_key * (min(self.room, most)):
            raise Throttled(
                f"the API key {key!r} has {usage.in_flight} requests in flight, the most "
                "that one key may have (server.max_share_per_key of server.max_in_flight)",
                retry_after=1,
            )
        usage.in_flight += 1
        return Slot(self, usage, server, several)

    def _drop_idle(self) -> None:
        self._usages = {key: one for key, one in self._usages.items() if one.in_flight}


class Slot(Struct, eq=False):
    """The slot and the memory of one request (see Room); `close` gives both back.

    A Struct created by position, because every request creates one (docs/adr/0016).

    usage: of its key. several: other keys exist. size: bytes of its body, and of a large
    answer, in memory.
    """

    shares: KeyShares
    usage: KeyUsage
    server: ServerConfig
    several: bool
    size: int = 0

    def buffer(self, size: int) -> None:
        """Claim memory. Raises Throttled over the key's share, Unavailable if no memory is left."""
        shares, usage, server = self.shares, self.usage, self.server
        if self.several and usage.buffered + size > server.max_share_per_key * (
            server.max_buffered_bytes - shares.others_buffered
        ):
            raise Throttled(
                "requests of this API key already use all the memory that one key may use "
                "(server.max_share_per_key of server.max_buffered_bytes)",
                retry_after=1,
            )
        buffered = shares.buffered + size
        if buffered + shares.others_buffered > server.max_buffered_bytes:
            raise Unavailable(
                "too many bodies of requests and answers are in memory", retry_after=1
            )
        shares.buffered = buffered
        usage.buffered += size
        self.size += size

    async def run(self, call: Callable[[], T], holder: Holder, size: int) -> T:
        """See Room."""
        return await self.shares.bodies.run(call, holder, size)

    def release(self, size: int) -> None:
        """Give back a part of the memory."""
        self.shares.buffered -= size
        self.usage.buffered -= size
        self.size -= size

    def close(self) -> None:
        """Give back the slot and all of the memory."""
        usage, size = self.usage, self.size
        usage.in_flight -= 1
        if size:
            self.shares.buffered -= size
            usage.buffered -= size
