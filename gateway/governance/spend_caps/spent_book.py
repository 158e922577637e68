"""What backends have cost: what the store has, and what this gateway has not imported yet.

The store has the spend of all gateways. Sums of past hours rarely change, so they are read every
few minutes, and the current ones at every look.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from strowger_gateway.gateway.governance.budgets.calendar import FOREVER, Period
from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.gateway.storage.sql.spend_caps.backend_spend import backend_spend
from strowger_gateway.gateway.storage.sql.spend_rows import slot_of

RECENT_S: Final = 3600
"""Sums this old are read again every REREAD_S only."""

REREAD_S: Final = 300.0

_Sums = Mapping[str, int]


class SpentBook:
    """Times are Unix seconds. The store is read in a thread, everything else in the event loop."""

    def __init__(self, imported_at: Callable[[], float]) -> None:
        """imported_at: returns until when this gateway's records are in the store."""
        self._imported_at = imported_at
        self._past: dict[Period, tuple[float, int, _Sums]] = {}
        self._stored: dict[Period, _Sums] = {}
        self._pending: list[tuple[float, _Sums]] = []

    def add(self, at: float, nanos: _Sums) -> None:
        """Attempts of this gateway have cost so much, by backend; the store learns it later."""
        self._pending.append((at, nanos))

    def read(self, database: Database, periods: Iterable[Period]) -> None:
        """Read the store. Blocks. Raises StoreUnavailable; then what was read before stays."""
        at, stored = time.time(), dict[Period, _Sums]()
        past = {one: kept for one, kept in self._past.items() if one in set(periods)}
        for period in periods:
            kept = past.get(period)
            if kept is None or at >= kept[0] + REREAD_S:
                cut = max(period.begin, slot_of(at - RECENT_S))
                kept = past[period] = at, cut, backend_spend(database, period.begin, cut)
            recent = backend_spend(database, kept[1], min(period.end, FOREVER))
            stored[period] = _added(kept[2], recent)
        self._past, self._stored = past, stored

    def spent(self, period: Period) -> _Sums:
        """Return what backends have cost in a period, in the store and on the way there."""
        imported = self._imported_at()
        self._pending = [one for one in self._pending if one[0] > imported]
        found = self._stored.get(period, {})
        for at, nanos in self._pending:
            if period.has(int(at)):
                found = _added(found, nanos)
        return found


def _added(one: _Sums, other: _Sums) -> _Sums:
    found = dict(one)
    for name, nanos in other.items():
        found[name] = found.get(name, 0) + nanos
    return found
