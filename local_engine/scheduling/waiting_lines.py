"""The sequences that wait for a place: one line per API key, and turns between the lines.

1. Within a key, waiting improves the level: the best level first, then the earliest arrival.
2. Between keys, the most urgent level first. There, waiting counts only for a key that holds no
   more than its share: the requests of any other key wait because of its own.
3. Then the team and the key that hold the least; equals take turns.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush, nsmallest

from msgspec import Struct

from strowger_gateway.local_engine.scheduling.key_shares import KeyShares
from strowger_gateway.local_engine.scheduling.sequence import Sequence
from strowger_gateway.schemas.holdings import Holder

_Rank = tuple[int, float, int, float, int, float, int]


def _order(sequence: Sequence) -> tuple[float, int]:
    return (sequence.arrival, sequence.id)


class TeamTurn(Struct, eq=False):
    """The lines of a team. turn: when one of them was served last."""

    lines: int
    turn: int


class Line(Struct, eq=False):
    """The waiting sequences of one key, by priority, each list by arrival. turn: its last one."""

    holder: Holder
    group: TeamTurn
    lists: dict[int, list[Sequence]]
    turn: int

    def __iter__(self) -> Iterator[Sequence]:
        for priority in sorted(self.lists):
            yield from self.lists[priority]

    def first(self, aged: Callable[[Sequence], int]) -> Sequence:
        """Return the sequence that is next."""
        if len(self.lists) == 1:
            for waiting in self.lists.values():
                return waiting[0]
        heads = [waiting[0] for waiting in self.lists.values()]
        return min(heads, key=lambda one: (aged(one), one.arrival, one.id))


class WaitingLines:
    """Adds and removes in O(log n) of a key's sequences, plus the move in its list.

    level_s: seconds of waiting that improve the level by one.
    """

    def __init__(self, level_s: float) -> None:
        self._level_s = level_s
        self._lines: dict[str, Line] = {}
        self._groups: dict[tuple[str, str], TeamTurn] = {}
        self._size = 0
        self._turn = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Sequence]:
        for line in self._lines.values():
            yield from line

    @property
    def lines(self) -> Iterator[Line]:
        yield from self._lines.values()

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence in its key's line. A new line begins behind its equals."""
        holder = sequence.holder
        line = self._lines.get(holder.key)
        if line is None:
            group = self._groups.get(holder.group)
            if group is None:
                group = self._groups[holder.group] = TeamTurn(lines=0, turn=self._turn)
            group.lines += 1
            line = Line(holder=holder, group=group, lists={}, turn=self._turn)
            self._lines[holder.key] = line
        waiting = line.lists.get(sequence.priority)
        if waiting is None:
            line.lists[sequence.priority] = [sequence]
        else:
            insort(waiting, sequence, key=_order)
        self._size += 1

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence, wherever it is in its line."""
        key = sequence.holder.key
        line = self._lines[key]
        waiting = line.lists[sequence.priority]
        del waiting[bisect_left(waiting, _order(sequence), key=_order)]
        self._size -= 1
        if waiting:
            return
        del line.lists[sequence.priority]
        if line.lists:
            return
        del self._lines[key]
        line.group.lines -= 1
        if not line.group.lines:
            del self._groups[line.holder.group]

    def served(self, sequence: Sequence) -> None:
        """Remove a sequence because its turn came: its key and team go behind their equals."""
        self._turn += 1
        line = self._lines[sequence.holder.key]
        line.turn = line.group.turn = self._turn
        self.remove(sequence)

    def line_of(self, holder: Holder) -> Line | None:
        """Return the key's line, `None` if nothing of it waits."""
        return self._lines.get(holder.key)

    def aged(self, sequence: Sequence, now: float) -> int:
        """Return the level, as improved by waiting."""
        waited = int(max(now - sequence.arrival, 0.0) / self._level_s)
        return min(sequence.level, max(1, sequence.priority - waited))


class Turns:
    """The lines of one step, in their order. What is served changes the order at once."""

    def __init__(
        self,
        waiting: WaitingLines,
        shares: KeyShares,
        now: float,
        stuck: Callable[[Holder], bool],
        lines: Iterable[Line] | None = None,
    ) -> None:
        """stuck: whether all that the key runs waits for another of its own sequences.

        lines: those that take part; `None`: all.
        """
        self._waiting = waiting
        self._shares = shares
        self._now = now
        self._stuck = stuck
        taking_part = waiting.lines if lines is None else lines
        self._heap = [(self._rank(line), line.holder.key, line) for line in taking_part]
        heapify(self._heap)

    def soonest(self, count: int) -> list[Line]:
        """Return the first lines in their order, and leave them in."""
        return [line for _, _, line in nsmallest(count, self._heap)]

    def next(self) -> Sequence | None:
        """Take the next line out, and return its first sequence; `push` lets it take part again."""
        while self._heap:
            rank, key, line = heappop(self._heap)
            now = self._rank(line)
            # The team may have been served through another of its keys.
            if now > rank:
                heappush(self._heap, (now, key, line))
                continue
            return line.first(self._aged)
        return None

    def push(self, holder: Holder) -> None:
        """Let a key take part again if one of its sequences waits."""
        line = self._waiting.line_of(holder)
        if line is not None:
            heappush(self._heap, (self._rank(line), holder.key, line))

    def _aged(self, sequence: Sequence) -> int:
        return self._waiting.aged(sequence, self._now)

    def _rank(self, line: Line) -> _Rank:
        first, shares, holder = line.first(self._aged), self._shares, line.holder
        if not shares.places.by_group(holder):
            # It runs nothing, so it has no pages either: most keys where very many wait.
            level = self._aged(first)
            return (level, 0.0, line.group.turn, 0.0, line.turn, first.arrival, first.id)
        if shares.over_share(holder) and not self._stuck(holder):
            level = min(line.lists)
        else:
            level = self._aged(first)
        return (
            level,
            shares.by_group(holder),
            line.group.turn,
            shares.by_key(holder),
            line.turn,
            first.arrival,
            first.id,
        )
