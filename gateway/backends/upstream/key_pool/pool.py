"""Which key of a vendor a call gets, and which ones rest."""

import random
from collections.abc import Callable, Container, Sequence
from math import ceil
from typing import Final, Protocol

from strowger_gateway.gateway.backends.upstream.key_pool.pooled_key import PooledKey
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.rendezvous import ranked
from strowger_gateway.schemas.errors import UpstreamBusy

SLACK: Final = 1.25
"""The multiple of its share of the load above which a key gets no further conversations.

Mirrokni, Thorup and Zadimoghaddam 2018, "Consistent Hashing with Bounded Loads".
"""


def _ignore(key: PooledKey, *, works: bool) -> None:
    """The default of `reported`: no other process shares the keys."""


class Reports(Protocol):
    """Reports a key that cools down, or `works` again, to other processes."""

    def __call__(self, key: PooledKey, *, works: bool) -> None: ...


class KeyPool:
    """The keys of one provider in one process.

    name: the provider's. reported: called when a key begins to rest, and when it
    answers although its account was refused. processes: that use the keys,
    of all gateways; each takes its part of their limits.
    """

    def __init__(
        self, name: str, keys: Sequence[PooledKey], *, draw: Callable[[], float] = random.random
    ) -> None:
        self.name = name
        self.keys = tuple(keys)
        self.reported: Reports = _ignore
        self.processes = 1
        self._draw = draw

    def choose(
        self, conversation: bytes, model: str, tried: Container[PooledKey] = ()
    ) -> PooledKey | None:
        """Return the key of a call, or `None` if all that may be used have been tried.

        conversation: that of `conversation_of`: its key while that is well and not overloaded.
        Without one the least loaded. If all keys are refused, the one that has rested longest: how
        long a refusal lasts is only a guess. Raises UpstreamBusy if the others have to wait.
        """
        at = now()
        left = [one for one in self.keys if one not in tried]
        free = [
            one
            for one in left
            if at >= one.refused_until and not one.wait(at, self.processes) and one.fits(model, at)
        ]
        if free:
            idle = [one for one in free if at >= one.busy_until]
            return self._of(conversation, idle or free)
        if tried:
            return None
        open_ = [one for one in left if not one.wait(at, self.processes)]
        unfit = [one for one in open_ if at >= one.refused_until]
        if unfit:
            return self._of(conversation, unfit)
        if open_ and len(open_) == len(left):
            return min(open_, key=lambda one: one.refused_until)
        raise self.all_rest(at)

    def all_rest(self, at: float) -> UpstreamBusy:
        """Return the error when every key has to wait: until the first one of them may be used."""
        waits = [
            wait
            for one in self.keys
            if at >= one.refused_until and (wait := one.wait(at, self.processes))
        ] or [one.wait(at, self.processes) for one in self.keys]
        names = ", ".join(one.name for one in self.keys)
        soonest = min((wait for wait in waits if wait > 0), default=1.0)
        return UpstreamBusy(
            f"{self.name}: all of its keys are rate-limited ({names})",
            upstream=self.name,
            retry_after=min(soonest, 3600.0),
        )

    def limit(self, key: PooledKey, retry_after: float | None) -> None:
        """The vendor sent 429 to a call with this key."""
        key.limit(now(), retry_after, self._draw())
        self.reported(key, works=False)

    def refuse(self, key: PooledKey, retry_after: float | None) -> None:
        """The vendor refused the account of this key."""
        key.refuse(now(), retry_after)
        self.reported(key, works=False)

    def succeed(self, key: PooledKey, model: str) -> None:
        """The vendor has answered with this key."""
        if key.succeed(model, now()):
            self.reported(key, works=True)

    def named(self, name: str) -> PooledKey | None:
        return next((one for one in self.keys if one.name == name), None)

    def _of(self, conversation: bytes, keys: Sequence[PooledKey]) -> PooledKey:
        if len(keys) == 1:
            return keys[0]
        if not conversation:
            return min(keys, key=_load)
        whole, busy = sum(one.weight for one in keys), sum(one.in_flight for one in keys) + 1
        order = ranked(conversation, [one.name for one in keys], [one.weight for one in keys])
        for place in order:
            one = keys[place]
            if one.in_flight + 1 <= ceil(SLACK * busy * one.weight / whole):
                return one
        return keys[order[0]]


def _load(key: PooledKey) -> tuple[float, float]:
    """What is in flight for its share; then what was ever sent, so that idle keys take turns."""
    return (key.in_flight + 1) / key.weight, sum(key.sent.values()) / key.weight
