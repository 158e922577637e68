"""How much of the gateway one API key may take while others have keys, too."""

from collections.abc import Callable
from typing import Protocol

from schemas.errors import Throttled


class KeyUsage:
    """What one key's requests have at the moment. in_flight: requests; buffered: bytes."""

    __slots__ = ("buffered", "in_flight")

    def __init__(self) -> None:
        self.in_flight = 0
        self.buffered = 0


class KeyUsages:
    """By a key's name; there are as many as the configuration has had keys."""

    def __init__(self) -> None:
        self._shares: dict[str, KeyUsage] = {}

    def of(self, key: str) -> KeyUsage:
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = KeyUsage()
        return share


class BodyMemory(Protocol):
    """The memory of all bodies. `buffer` raises Unavailable when it is full."""

    def buffer(self, size: int) -> None: ...

    def release(self, size: int) -> None: ...


class Reservation:
    """The place and the memory of one request, given back by `close`."""

    __slots__ = ("_buffers", "_room", "_share", "size")

    def __init__(self, buffers: BodyMemory, share: KeyUsage, room: Callable[[], float]) -> None:
        """room: bytes that all requests of this key may have together, as of now."""
        self.size = 0
        self._buffers = buffers
        self._room = room
        self._share = share
        share.in_flight += 1

    def buffer(self, size: int) -> None:
        """Claim memory. Raises Throttled over the key's share, Unavailable where all is taken."""
        share = self._share
        if share.buffered + size > self._room():
            raise Throttled(
                "this API key's requests take up all the memory that one key may have "
                "(server.max_share_per_key of server.max_buffered_bytes)",
                retry_after=1,
            )
        self._buffers.buffer(size)
        share.buffered += size
        self.size += size

    def release(self, size: int) -> None:
        self._buffers.release(size)
        self._share.buffered -= size
        self.size -= size

    def close(self) -> None:
        """The request is over."""
        self._share.in_flight -= 1
        if self.size:
            self.release(self.size)
