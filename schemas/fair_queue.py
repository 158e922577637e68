"""Queue what waits for a scarce thing: by priority, then by turns of teams and of their keys.

1. The most urgent level that has an eligible item is served first.
2. Among its teams, the one that holds the least comes first; equals take turns.
3. Among that team's keys, again the one that holds the least, and equals take turns.
4. Items of one key keep their order.

So a key that sends a thousand requests delays its own, and a team with a hundred keys counts like a
team with one. This is max-min fairness over what is held (https://www.usenix.org/conference/nsdi11/
dominant-resource-fairness-fair-allocation-multiple-resource-types for several resources: `load` is
then the dominant share).
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from strowger_gateway.schemas.holdings import Holder

T = TypeVar("T")


class Load(Protocol):
    """What is held, comparable between keys and between teams: places, or a share of 0 to 1."""

    def by_key(self, holder: Holder) -> float: ...

    def by_group(self, holder: Holder) -> float: ...


class Waiting(Struct, Generic[T], eq=False):
    """One item in the queue. amount: places that it needs. level: smaller is more urgent."""

    item: T
    holder: Holder
    amount: int = 1
    level: int = 0


class _Line(Struct, Generic[T], eq=False):
    """The items of one key at one level. turn: when it was served last."""

    holder: Holder
    items: deque[Waiting[T]]
    turn: int = 0


class _Group(Struct, Generic[T], eq=False):
    lines: dict[str, _Line[T]]
    turn: int = 0


class FairQueue(Generic[T]):
    """Adding, removing the first of a key, and skipping are O(1); `first` is O(teams + keys).

    An item may be removed from the middle, too, in O(items of its key).
    """

    __slots__ = ("_levels", "_size", "_turns")

    def __init__(self) -> None:
        self._levels: dict[int, OrderedDict[tuple[str, str], _Group[T]]] = {}
        self._size = 0
        self._turns = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Waiting[T]]:
        """Yield all items, by level; within a level in no particular order."""
        for level in sorted(self._levels):
            for group in self._levels[level].values():
                for line in group.lines.values():
                    yield from line.items

    def has_any_of(self, holder: Holder) -> bool:
        """Return whether an item of this key waits."""
        key, group = holder.key, holder.group
        return any(group in level and key in level[group].lines for level in self._levels.values())

    def add(self, waiting: Waiting[T]) -> None:
        """Queue an item behind the others of its key and level.

        A new line begins behind its equals: a key that comes back each time that it was served
        would otherwise always be before one with a queue.
        """
        holder = waiting.holder
        level = self._levels.setdefault(waiting.level, OrderedDict())
        group = level.get(holder.group)
        if group is None:
            group = level[holder.group] = _Group(lines={}, turn=self._turns)
        line = group.lines.get(holder.key)
        if line is None:
            line = group.lines[holder.key] = _Line(holder=holder, items=deque(), turn=self._turns)
        line.items.append(waiting)
        self._size += 1

    def first(
        self, load: Load, eligible: Callable[[Waiting[T]], bool] = lambda _: True
    ) -> Waiting[T] | None:
        """Return the item whose turn it is, and leave it in the queue.

        eligible: called with the first item of a key; an item that is not eligible delays only
        those of its own key.
        """
        for number in sorted(self._levels):
            found: tuple[float, int, float, int] | None = None
            chosen: Waiting[T] | None = None
            for group in self._levels[number].values():
                held = load.by_group(next(iter(group.lines.values())).holder)
                if found is not None and (held, group.turn) > found[:2]:
                    continue
                for line in group.lines.values():
                    rank = (held, group.turn, load.by_key(line.holder), line.turn)
                    if (found is None or rank < found) and eligible(line.items[0]):
                        found, chosen = rank, line.items[0]
                        if not held:  # those behind it have no earlier turn
                            return chosen
            if chosen is not None:
                return chosen
        return None

    def served(self, waiting: Waiting[T]) -> None:
        """Remove an item because its turn came: its key and team go behind their equals."""
        self._turns += 1
        level, holder = self._levels[waiting.level], waiting.holder
        group, line = level[holder.group], level[holder.group].lines.pop(holder.key)
        group.turn = line.turn = self._turns
        # Behind the others: teams and keys are in the order of their turns.
        group.lines[holder.key] = line
        level.move_to_end(holder.group)
        self.remove(waiting)

    def remove(self, waiting: Waiting[T]) -> None:
        """Remove an item that waits no longer, wherever it is. Raises KeyError if it is absent."""
        holder = waiting.holder
        level = self._levels[waiting.level]
        group = level[holder.group]
        line = group.lines[holder.key]
        if line.items[0] is waiting:
            line.items.popleft()
        else:
            kept = deque(one for one in line.items if one is not waiting)
            if len(kept) == len(line.items):
                raise KeyError(waiting)
            line.items = kept
        self._size -= 1
        if line.items:
            return
        del group.lines[holder.key]
        if not group.lines:
            del level[holder.group]
            if not level:
                del self._levels[waiting.level]
