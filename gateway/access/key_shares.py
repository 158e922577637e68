"""Limit how much of the gateway one API key may use while other keys exist."""

from collections.abc import Callable
from typing import Protocol

from schemas.errors import Throttled


class KeyUsage:
    """What one key's requests use at the moment. in_flight: requests; buffered: bytes."""

    __slots__ = ("buffered", "in_flight")

    def __init__(self) -> None:
        self.in_flight = 0
        self.buffered = 0


class KeyUsages:
    """Usage by key name; one entry for each key that the configuration has ever had."""

    def __init__(self) -> None:
        self._shares: dict[str, KeyUsage] = {}

    def of(self, key: str) -> KeyUsage:
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = KeyUsage()
        return share


class BodyMemory(Protocol):
    """The memory budget of all bodies. `buffer` raises Unavailable when it is exhausted."""

    def buffer(self, size: int) -> None: ...

    def release(self, size: int) -> None: ...


class Reservation:
    """The slot and the memory of one request; `close` gives them back."""

    __slots__ = ("_buffers", "_room", "_share", "size")

    def __init__(self, buffers: BodyMemory, share: KeyUsage, room: Callable[[], float]) -> None:
        """room: bytes that all requests of this key may buffer together, as of now."""
        self.size = 0
        self._buffers = buffers
        self._room = room
        self._share = share
        share.in_flight += 1

    def buffer(self, size: int) -> None:
        """Claim memory. Raises Throttled over the key's share, Unavailable if no memory is left."""
        share = self._share
        if share.buffered + size > self._room():
            raise Throttled(
                "requests of this API key already use all the memory that one key may use "
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
        """Release the slot and the memory: the request is over."""
        self._share.in_flight -= 1
        if self.size:
            self.release(self.size)
