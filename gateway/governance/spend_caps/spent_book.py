"""What backends have cost: what the store has, and what this gateway has not imported yet.

The store has the spend of all gateways. Sums of past hours rarely change, so they are read every
few minutes, and the current ones at every look. Each look also reads which batches of records the
sums contain, in the same transaction, so that nothing counts twice.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.governance.budgets.calendar import FOREVER, Period
from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.gateway.storage.sql.spend_caps.backend_spend import read_spend
from strowger_gateway.gateway.storage.sql.spend_rows import slot_of

RECENT_S: Final = 3600
"""Sums this old are read again every REREAD_S only."""

REREAD_S: Final = 300.0

LOST_S: Final = 60.0
"""A batch that a complete import so much later did not bring was lost with its process."""

MOST_BATCHES: Final = 4096
"""Of a process; while the store is unreachable, later ones are added to the last."""

_Sums = Mapping[str, int]


class _Batch(Struct, kw_only=True):
    """number: of the process's records. came: monotonic seconds. slot: Unix seconds."""

    number: int
    came: float
    slot: int
    nanos: dict[str, int]


class _Past(Struct, frozen=True):
    """Created by position. read: when it was. cut: the slot before which it is. Unix seconds."""

    read: float
    cut: int
    sums: _Sums


class StoredCosts(Struct, frozen=True, kw_only=True):
    """The store at one moment.

    sums: by period and backend, 10⁻⁹ US dollars. batches: by writer, the last in the store.
    whole_at: when a complete import had begun before, monotonic seconds.
    """

    sums: Mapping[Period, _Sums]
    batches: Mapping[str, int]
    whole_at: float


class SpentBook:
    """The store is read in a thread, everything else is done in the event loop."""

    def __init__(self, imported_at: Callable[[], float]) -> None:
        """imported_at: returns when the last complete import began, monotonic seconds."""
        self._imported_at = imported_at
        self._past: dict[Period, _Past] = {}
        self._stored: Mapping[Period, _Sums] = {}
        self._pending: dict[str, deque[_Batch]] = {}
        self._slots: dict[int, dict[str, int]] = {}

    def add(self, writer: str, number: int, at: float, nanos: _Sums) -> None:
        """Attempts of this gateway have cost so much, by backend; the store learns it later.

        writer, number: of the batch of records. at: when they ended, Unix seconds.
        """
        nanos = {name: cost for name, cost in nanos.items() if cost}
        if not nanos:
            return
        batches, slot = self._pending.setdefault(writer, deque()), slot_of(at)
        if len(batches) >= MOST_BATCHES and batches[-1].slot == slot:
            batches[-1].number = number
            batches[-1].came = time.monotonic()
            _add(batches[-1].nanos, nanos)
        else:
            came = time.monotonic()
            batches.append(_Batch(number=number, came=came, slot=slot, nanos=nanos))
        _add(self._slots.setdefault(slot, {}), nanos)

    def read(self, database: Database, periods: Iterable[Period]) -> StoredCosts:
        """Read the store, for `learn`. Blocks. Raises StoreUnavailable; then nothing changes."""
        at, whole_at = time.time(), self._imported_at()
        oldest = min(list(self._slots), default=FOREVER)
        cuts: dict[Period, int] = {}
        windows: set[tuple[int, int]] = set()
        for period in periods:
            kept = self._past.get(period)
            if kept is None or at >= kept.read + REREAD_S or oldest < kept.cut:
                cuts[period] = max(period.begin, slot_of(at - RECENT_S))
                windows.add((period.begin, cuts[period]))
            else:
                cuts[period] = kept.cut
            windows.add((cuts[period], period.end))
        found, batches = read_spend(database, windows)
        past, sums = dict[Period, _Past](), dict[Period, _Sums]()
        for period, cut in cuts.items():
            before = found.get((period.begin, cut))
            kept = self._past[period] if before is None else _Past(at, cut, before)
            past[period] = kept
            sums[period] = _add(dict(kept.sums), found[cut, period.end])
        self._past = past
        return StoredCosts(sums=sums, batches=batches, whole_at=whole_at)

    def learn(self, reading: StoredCosts) -> None:
        """Go on from what the store has, and forget the batches that are in it."""
        self._stored = reading.sums
        for writer, batches in tuple(self._pending.items()):
            last, lost = reading.batches.get(writer, -1), reading.whole_at - LOST_S
            while batches and (batches[0].number <= last or batches[0].came < lost):
                self._forget(batches.popleft())
            if not batches:
                del self._pending[writer]

    def spent(self, period: Period) -> _Sums:
        """Return what backends have cost in a period, in the store and on the way there."""
        found = dict(self._stored.get(period, {}))
        for slot, nanos in self._slots.items():
            if period.has(slot):
                _add(found, nanos)
        return found

    def _forget(self, batch: _Batch) -> None:
        slot = self._slots[batch.slot]
        for name, nanos in batch.nanos.items():
            slot[name] -= nanos
        if not any(slot.values()):
            del self._slots[batch.slot]


def _add(found: dict[str, int], other: _Sums) -> dict[str, int]:
    for name, nanos in other.items():
        found[name] = found.get(name, 0) + nanos
    return found
