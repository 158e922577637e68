"""Who holds how many slots of a connection pool, counted only while that can matter."""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from strowger_gateway.schemas.fair_queue import Waiting
from strowger_gateway.schemas.fair_share import FairShare
from strowger_gateway.schemas.holdings import Holder, Holdings

FEW = 0.75
"""The share of the slots that one key may hold at which counting ends again."""


class SlotHolder(Protocol):
    """A connection. idle: it holds no slot, else its `holder` does."""

    idle: bool
    holder: Holder


C = TypeVar("C", bound=SlotHolder)
T = TypeVar("T")


class PoolSlots(Generic[C, T]):
    """The slots of one pool, at most `total` in use.

    While fewer are in use than one key may hold, no key can be at its bound, and no request waits.
    Then (`calm`) a slot is taken and given back by changing `room`, and connections remember their
    holders. From then on until few are in use again, slots are counted by key and team.

    calm: slots are not counted. room: how many may be taken by any key; 0 unless calm.
    """

    __slots__ = ("_connections", "_dials", "_few", "_most", "_shares", "_total", "calm", "room")

    def __init__(self, total: int) -> None:
        """total: at least 1."""
        self._total = total
        holdings = Holdings(total, several=True)
        self._most = self.room = total - holdings.reserve
        self._few = int(FEW * self._most)
        self._shares: FairShare[T] = FairShare(total, several=True)
        self._connections: set[C] = set()
        self._dials: dict[Holder, int] = {}
        self.calm = True

    @property
    def held(self) -> int:
        """Return the number of slots in use."""
        return self._most - self.room if self.calm else self._shares.holdings.used

    @property
    def waiting(self) -> int:
        """Return the number of requests in the queue."""
        return len(self._shares.queue)

    def at_bound(self, holder: Holder) -> bool:
        """Return whether the key holds all that one key may hold, and others may hold more."""
        return self._shares.holdings.at_bound(holder)

    def take(self, holder: Holder) -> bool:
        """Take a slot if the key may have it now. The caller names its connection, or dials."""
        if self.room:
            self.room -= 1
            return True
        if self.calm:
            self._count()
        return self._shares.take(holder)

    def give_back(self, holder: Holder) -> None:
        """Give back a slot. `serve` and `calm_down` follow."""
        if self.calm:
            self.room += 1
        else:
            self._shares.give_back(holder)

    def wait(self, item: T, holder: Holder, level: int) -> Waiting[T]:
        """Queue an item that could not `take` a slot. `serve` follows."""
        return self._shares.wait(item, holder, level=level)

    def withdraw(self, waiting: Waiting[T]) -> None:
        """Remove an item from the queue. `serve` follows."""
        self._shares.withdraw(waiting)

    def tickets(self) -> list[T]:
        """Return the items in the queue."""
        return [waiting.item for waiting in self._shares.queue]

    def serve(self) -> Iterator[T]:
        """Yield the items that hold a slot from now on."""
        return self._shares.serve()

    def calm_down(self) -> None:
        """Stop counting if few slots are in use and no request waits."""
        shares = self._shares
        if self.calm or shares.queue or shares.holdings.used > self._few:
            return
        self.calm = True
        self.room = self._most - shares.holdings.used
        self._shares = FairShare(self._total, several=True)

    def begin_dial(self, holder: Holder) -> None:
        """A slot that is held has no connection from now on; `connect` or `abandon` follows."""
        self._dials[holder] = self._dials.get(holder, 0) + 1

    def connect(self, connection: C) -> None:
        """The slot of a dial has this connection from now on."""
        self._end_dial(connection.holder)
        self._connections.add(connection)

    def disconnect(self, connection: C) -> None:
        """The connection is lost, and its slot is held for another one, which is dialled."""
        self._connections.discard(connection)
        self.begin_dial(connection.holder)

    def abandon(self, holder: Holder) -> None:
        """Give back the slot of a dial that failed. `serve` follows."""
        self._end_dial(holder)
        self.give_back(holder)

    def lose(self, connection: C) -> None:
        """The connection is closed; its slot, if it holds one, is given back apart from this."""
        self._connections.discard(connection)

    def _end_dial(self, holder: Holder) -> None:
        left = self._dials[holder] - 1
        if left:
            self._dials[holder] = left
        else:
            del self._dials[holder]

    def _count(self) -> None:
        """Begin to count by key and team."""
        holdings = self._shares.holdings
        for connection in self._connections:
            if not connection.idle:
                holdings.hold(connection.holder)
        for holder, dials in self._dials.items():
            holdings.hold(holder, dials)
        self.calm = False
        self.room = 0
