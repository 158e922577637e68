"""The queue of inputs for an embedding model; selects the inputs of each batch.

Two rules: the team that was served least leads a batch, with its key, and that key's request, that
were served least. A new one starts with the average service of the others since the start (the
virtual time of weighted fair queueing), so that neither a long request nor many short ones starve
another. The rest of the batch is filled with the longest inputs up to the leader's length, rounded
up, so that there is little padding.
"""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterator
from typing import Literal, TypeVar

from msgspec import Struct
from torch import Tensor

from strowger_gateway.schemas.holdings import ANONYMOUS, Holder

_Owner = TypeVar("_Owner", str, tuple[str, str])

ROUND = 16
"""The leader's length is rounded up to a multiple of this many tokens."""


class Inputs(Struct, frozen=True, kw_only=True, eq=False):
    """One request's inputs.

    lane:     the model's name. rows: token ids of each input, at least one.
    holder:   the API key and its team.
    skip:     tokens of the instruction at each row's beginning.
    deadline: by the engine's clock.
    """

    lane: str
    id: int
    rows: tuple[tuple[int, ...], ...]
    holder: Holder = ANONYMOUS
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


class _Party(Struct, eq=False):
    """A team, or a key of a team: its waiting requests, and the tokens that it was served."""

    served: float
    requests: int = 0


class _Waiting:
    """The rest of one request. order: places by length, longest last; served: in tokens."""

    def __init__(self, inputs: Inputs, served: float, team: _Party, key: _Party) -> None:
        self.inputs = inputs
        self.team = team
        self.key = key
        team.requests += 1
        key.requests += 1
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
        self._teams: dict[tuple[str, str], _Party] = {}
        self._keys: dict[tuple[str, str], dict[str, _Party]] = {}
        self.count = 0

    def add(self, inputs: Inputs) -> None:
        group = inputs.holder.group
        waiting = _Waiting(
            inputs,
            self._clock,
            _joined(self._teams, group),
            _joined(self._keys.setdefault(group, {}), inputs.holder.key),
        )
        self._waiting[inputs.id] = waiting
        for place in waiting.order:
            self._push(Pick(inputs, place))
        self.count += len(inputs.rows)

    def drop(self, id: int) -> None:
        """Remove a request; its inputs are skipped when they are reached."""
        waiting = self._waiting.pop(id, None)
        if waiting is not None:
            self.count -= len(waiting.taken) - sum(waiting.taken)
            self._forget(waiting)
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
                self._charge(waiting, -len(pick.row))
                insort(waiting.order, pick.place, key=lambda place: len(pick.inputs.rows[place]))
                self._push(pick)
                self.count += 1

    def _leader(self) -> Pick | None:
        led = [
            (waiting.team.served, waiting.key.served, waiting.served, id)
            for id, waiting in self._waiting.items()
            if waiting.longest() is not None
        ]
        if not led:
            return None
        waiting = self._waiting[min(led)[3]]
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
        self._charge(waiting, len(pick.row))
        self.count -= 1

    def _charge(self, waiting: _Waiting, tokens: int) -> None:
        waiting.served += tokens
        waiting.key.served += tokens
        waiting.team.served += tokens

    def _forget(self, waiting: _Waiting) -> None:
        """Forget a key and a team with their last request."""
        waiting.key.requests -= 1
        waiting.team.requests -= 1
        group = waiting.inputs.holder.group
        if not waiting.key.requests:
            del self._keys[group][waiting.inputs.holder.key]
        if not waiting.team.requests:
            del self._teams[group], self._keys[group]

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


def _joined(parties: dict[_Owner, _Party], owner: _Owner) -> _Party:
    """Return a team or key; a new one starts with the average service of those that wait."""
    party = parties.get(owner)
    if party is None:
        served = sum(one.served for one in parties.values())
        party = parties[owner] = _Party(served=served / len(parties) if parties else 0.0)
    return party
