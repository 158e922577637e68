"""The queue of inputs for an embedding model; selects the inputs of each batch.

Two rules: the request that was served least leads a batch, and a new request starts with the
average service of the others since the start (the virtual time of weighted fair queueing), so
that neither a long request nor many short ones starve another. The rest of the batch is filled with
the longest inputs up to the leader's length, rounded up, so that there is little padding.
"""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from torch import Tensor

ROUND = 16
"""The leader's length is rounded up to a multiple of this many tokens."""


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
    """The result of a request.

    vectors: [inputs, width] float32 on the CPU, in input order, if done.
    outcome: "lost": the engine ended. reason: of "failed" and "lost".
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
    """The rest of one request. order: places by length, longest last; served: in tokens."""

    def __init__(self, inputs: Inputs, served: float) -> None:
        self.inputs = inputs
        self.served = served
        self.order = sorted(range(len(inputs.rows)), key=lambda place: len(inputs.rows[place]))
        self.taken = bytearray(len(inputs.rows))

    def longest(self) -> int | None:
        """Return the place of the longest input that is not taken."""
        while self.order and self.taken[self.order[-1]]:
            self.order.pop()
        return self.order[-1] if self.order else None


class InputQueue:
    """The inputs of all requests. `drop` removes a request with its remaining inputs."""

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
        """Remove a request; its inputs are skipped when they are reached."""
        waiting = self._waiting.pop(id, None)
        if waiting is not None:
            self.count -= len(waiting.taken) - sum(waiting.taken)
            if not self._waiting:
                self._by_length.clear()
                self._lengths.clear()

    def late(self, now: float) -> list[Inputs]:
        """Return the requests whose deadline has passed."""
        return [w.inputs for w in self._waiting.values() if w.inputs.deadline <= now]

    def take(self, budget: int) -> list[Pick]:
        """Return the next batch, longest first; at least one input if any waits.

        budget: tokens of the batch, padding included; a longer input runs alone.
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
        # The virtual clock is the service that each waiting request got on average.
        self._clock += sum(len(pick.row) for pick in batch) / len(self._waiting)
        self._sweep()
        return sorted(batch, key=lambda pick: len(pick.row), reverse=True)

    def put_back(self, batch: list[Pick]) -> None:
        """Return inputs to the queue after `take`."""
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
        """Yield waiting inputs up to length `bound`, longest first. The caller may take them."""
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
        """Remove taken and dropped inputs from the front of each length's queue."""
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
