"""Share one scarce thing between keys: who may hold a place now, and who gets the next one.

1. `take` holds places if they are free, the key stays within its bound, and no turn is skipped.
2. Otherwise the caller adds an item with `wait`, and gives places back with `give_back`.
3. After each change the caller calls `serve`, which yields the items that hold their places now.
4. An item that needs more than is free keeps its turn. Until it is served, others pass it only with
   what a single key can never hold, so that it is not starved, and delays others little.

Without I/O, clock or locks: use it in one thread, or under a lock of your own.
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from strowger_gateway.schemas.fair_queue import FairQueue, Waiting
from strowger_gateway.schemas.holdings import Holder, Holdings

T = TypeVar("T")


class FairShare(Generic[T]):
    """One pool of places with its queue.

    total, several: see Holdings; may be assigned through `holdings`, followed by `serve`.
    """

    __slots__ = ("_blocked", "_passing", "holdings", "queue")

    def __init__(self, total: int, *, several: bool = False) -> None:
        self.holdings = Holdings(total, several=several)
        self.queue: FairQueue[T] = FairQueue()
        self._blocked: Waiting[T] | None = None
        """The item whose turn it is, and which needs more than is free."""
        self._passing: dict[str, int] = {}
        """What keys hold that passed it. Of what a key gives back, the oldest is counted first: it
        could otherwise replace all that it held before with what passes, for ever."""

    def bounded(self, holder: Holder, amount: int) -> int:
        """Return how many of `amount` places the key may ever hold."""
        return min(amount, self.holdings.most(holder))

    def take(self, holder: Holder, amount: int = 1) -> bool:
        """Hold places now, or return false.

        amount: at most `bounded(holder, amount)`; one place where the key holds none is always
        within the bound.
        """
        holdings = self.holdings
        if amount > holdings.free or not holdings.within_bound(holder, amount):
            return False
        if self.queue and not self._may_pass(holder, amount):
            return False
        holdings.hold(holder, amount)
        return True

    def wait(self, item: T, holder: Holder, amount: int = 1, level: int = 0) -> Waiting[T]:
        """Queue an item; return its place, for `withdraw`. Call `serve` next."""
        waiting = Waiting(item, holder, amount, level)
        self.queue.add(waiting)
        if self._blocked is not None and level < self._blocked.level:
            self._unblock()  # what is more urgent does not wait for it
        return waiting

    def withdraw(self, waiting: Waiting[T]) -> None:
        """Remove an item that `serve` has not yielded. Call `serve` next."""
        self.queue.remove(waiting)
        if waiting is self._blocked:
            self._unblock()

    def give_back(self, holder: Holder, amount: int = 1) -> None:
        """Free places, all or a part of what a key holds. Call `serve` next."""
        self.holdings.give_back(holder, amount)
        passing = self._passing.get(holder.key)
        if passing is not None:
            left = self.holdings.by_key(holder)
            if left < passing:
                self._passing[holder.key] = left

    def serve(self) -> Iterator[T]:
        """Yield the items that hold their places from now on, in the order of their turns."""
        while self.queue:
            waiting = self._next()
            if waiting is None:
                return
            self.queue.served(waiting)
            self.holdings.hold(waiting.holder, waiting.amount)
            yield waiting.item

    def _next(self) -> Waiting[T] | None:
        """Return the next item that fits, and remember one that does not."""
        holdings = self.holdings
        if holdings.free <= 0:
            return None
        blocked = self._blocked
        if blocked is None:
            waiting = self.queue.first(holdings, self._within_bound)
            if waiting is None or waiting.amount <= holdings.free:
                return waiting
            self._blocked = waiting
        elif blocked.amount <= holdings.free:
            self._unblock()
            return blocked
        return self._passer()

    def _passer(self) -> Waiting[T] | None:
        """Return the next item that may pass the blocked one."""
        free = self.holdings.free
        blocked = self._blocked.holder.key if self._blocked else None
        room = self._room()

        def passes(one: Waiting[T]) -> bool:
            small = one.amount <= min(free, room(one.holder))
            return small and one.holder.key != blocked and self._within_bound(one)

        found = self.queue.first(self.holdings, passes)
        if found is not None:
            self._count_passing(found.holder, found.amount)
        return found

    def _may_pass(self, holder: Holder, amount: int) -> bool:
        """Return whether a new item may be served before those in the queue.

        It never passes its own key's. Others wait because their keys are at their bound, or behind
        the one that needs more than is free, which it must not delay further.
        """
        if self.queue.has_any_of(holder):
            return False
        if self._blocked is None:
            return True
        if amount > self._room()(holder):
            return False
        self._count_passing(holder, amount)
        return True

    def _room(self) -> Callable[[Holder], int]:
        """Return how much of a key may pass the blocked item: together the reserve.

        Of a key that held something before, it is unknown whether what passed has come back, so
        that such keys leave half of it to others.
        """
        holdings, passing = self.holdings, self._passing
        held = {key: holdings.by_key(Holder(key)) for key in passing}
        left = holdings.reserve - sum(passing.values())
        half = -(-holdings.reserve // 2)
        half -= sum(amount for key, amount in passing.items() if held[key] > amount)

        def room(holder: Holder) -> int:
            older = holdings.by_key(holder) > passing.get(holder.key, 0)
            return min(left, half) if older else left

        return room

    def _count_passing(self, holder: Holder, amount: int) -> None:
        self._passing[holder.key] = self._passing.get(holder.key, 0) + amount

    def _unblock(self) -> None:
        self._blocked = None
        self._passing.clear()

    def _within_bound(self, waiting: Waiting[T]) -> bool:
        return self.holdings.within_bound(waiting.holder, waiting.amount)
