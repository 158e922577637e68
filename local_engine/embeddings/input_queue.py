"""The inputs that wait for an embedding model, and which of them go through it together.

Two rules. A forward pass is led by the request that has had the least so far, and a newcomer
counts as having had what the others had on average since the start (weighted fair queueing's
virtual time), so that neither a long request nor ever more short ones starve another. And what
else fits goes along: the longest inputs that are no longer than the leader's, rounded up, so that
little of the pass is padding.
"""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from torch import Tensor

ROUND = 16
"""Tokens by which the leader may be outgrown."""


class Inputs(Struct, frozen=True, kw_only=True, eq=False):
    """One request's inputs.

    lane:     the model's name. rows: token ids of each input, at least one.
    skip:     tokens of the instruction at each row's beginning.
    deadline: by the engine's clock.
    """

    lane: str
    id: int
    rows: tuple[tuple[int, ...], ...]
    skip: int = 0
    deadline: float = float("inf")


class Embedded(Struct, frozen=True, kw_only=True, eq=False):
    """How a request ended.

    vectors: [inputs, width] float32 on the CPU, in input order, where it is done.
    outcome: "lost" is the engine's end. reason: of "failed" and "lost".
    """

    id: int
    outcome: Literal["done", "expired", "failed", "lost"]
    vectors: Tensor | None = None
    reason: str = ""


class Pick(Struct, frozen=True, eq=False):
    """One input of a batch: a request, and the place of the input in it."""

    inputs: Inputs
    place: int

    @property
    def row(self) -> tuple[int, ...]:
        return self.inputs.rows[self.place]


class _Waiting:
    """What is left of one request. order: places, by length, the longest last; served: tokens."""

    def __init__(self, inputs: Inputs, served: float) -> None:
        self.inputs = inputs
        self.served = served
        self.order = sorted(range(len(inputs.rows)), key=lambda place: len(inputs.rows[place]))
        self.taken = bytearray(len(inputs.rows))

    def longest(self) -> int | None:
        """The place of the longest input that nobody took."""
        while self.order and self.taken[self.order[-1]]:
            self.order.pop()
        return self.order[-1] if self.order else None


class InputQueue:
    """Inputs of all requests. A request leaves by `drop`, whatever of it is still here."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Waiting] = {}
        self._by_length: dict[int, deque[Pick]] = {}
        self._lengths: list[int] = []
        self._clock = 0.0
        self.count = 0

    def add(self, inputs: Inputs) -> None:
        waiting = _Waiting(inputs, self._clock)
        self._waiting[inputs.id] = waiting
        for place in waiting.order:
            self._push(Pick(inputs, place))
        self.count += len(inputs.rows)

    def drop(self, id: int) -> None:
        """Forget a request; its inputs are skipped where they are found."""
        waiting = self._waiting.pop(id, None)
        if waiting is not None:
            self.count -= len(waiting.taken) - sum(waiting.taken)
            if not self._waiting:
                self._by_length.clear()
                self._lengths.clear()

    def late(self, now: float) -> list[Inputs]:
        """The requests whose deadline has passed."""
        return [w.inputs for w in self._waiting.values() if w.inputs.deadline <= now]

    def take(self, budget: int) -> list[Pick]:
        """The next batch, longest first; at least one input if any waits.

        budget: tokens of the batch, padding included; an input that is longer goes alone.
        """
        leader = self._leader()
        if leader is None:
            return []
        batch = [leader]
        longest = len(leader.row)
        rounded = -(-longest // ROUND) * ROUND
        for pick in self._up_to(rounded if 2 * rounded <= budget else longest):
            longest = max(longest, len(pick.row))
            if (len(batch) + 1) * longest > budget:
                break
            batch.append(pick)
            self._take(pick)
        self._clock += sum(len(pick.row) for pick in batch) / len(self._waiting)
        self._sweep()
        return sorted(batch, key=lambda pick: len(pick.row), reverse=True)

    def put_back(self, batch: list[Pick]) -> None:
        """They wait again, after `take`."""
        for pick in batch:
            waiting = self._waiting.get(pick.inputs.id)
            if waiting is not None:
                waiting.taken[pick.place] = 0
                waiting.served -= len(pick.row)
                insort(waiting.order, pick.place, key=lambda place: len(pick.inputs.rows[place]))
                self._push(pick)
                self.count += 1

    def _leader(self) -> Pick | None:
        led = [
            (waiting.served, id)
            for id, waiting in self._waiting.items()
            if waiting.longest() is not None
        ]
        if not led:
            return None
        waiting = self._waiting[min(led)[1]]
        place = waiting.longest()
        assert place is not None
        pick = Pick(waiting.inputs, place)
        self._take(pick)
        return pick

    def _up_to(self, bound: int) -> Iterator[Pick]:
        """What waits and is no longer than `bound`, longest first. The caller takes it or not."""
        for length in reversed(self._lengths[: bisect_right(self._lengths, bound)]):
            for pick in self._by_length[length]:
                waiting = self._waiting.get(pick.inputs.id)
                if waiting is not None and not waiting.taken[pick.place]:
                    yield pick

    def _take(self, pick: Pick) -> None:
        waiting = self._waiting[pick.inputs.id]
        waiting.taken[pick.place] = 1
        waiting.served += len(pick.row)
        self.count -= 1

    def _push(self, pick: Pick) -> None:
        length = len(pick.row)
        if length not in self._by_length:
            self._by_length[length] = deque()
            insort(self._lengths, length)
        self._by_length[length].append(pick)

    def _sweep(self) -> None:
        """Forget, at the front of each length, what was taken or dropped."""
        for length in list(self._lengths):
            picks = self._by_length[length]
            while picks and self._is_gone(picks[0]):
                picks.popleft()
            if not picks:
                del self._by_length[length]
                self._lengths.remove(length)

    def _is_gone(self, pick: Pick) -> bool:
        waiting = self._waiting.get(pick.inputs.id)
        return waiting is None or bool(waiting.taken[pick.place])
