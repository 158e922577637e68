"""The memory and the threads that one request may use for what is large."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from strowger_gateway.schemas.holdings import Holder

T = TypeVar("T")


class Room(Protocol):
    """Of one request: what it claims is given back when the request ends."""

    def buffer(self, size: int) -> None:
        """Claim bytes of memory. Raises Throttled over the key's share, Unavailable over all."""
        ...

    async def run(self, call: Callable[[], T], holder: Holder, size: int) -> T:
        """Run a call on so many bytes in a thread when it is the key's turn."""
        ...
