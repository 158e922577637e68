"""Read traffic: what the store has of all gateways, and what this one has counted since.

The store has a request one or two seconds after its end, and those of other gateways as soon as
they have written them. Until then a gateway knows only its own, from its processes' memory.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.traffic.queries import (
    EVERYTHING,
    TrafficFilter,
    TrafficNames,
    TrafficRows,
)
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries, fuller
from strowger_gateway.gateway.storage.sql.traffic.windows import IN_MEMORY, Window
from strowger_gateway.schemas.errors import Throttled

WAIT_S: Final = 3.0
"""How long the store may take; then what this gateway knows is shown."""

FRESH_S: Final[dict[Window, float]] = {
    "5m": 1.0,
    "15m": 2.0,
    "1h": 5.0,
    "24h": 15.0,
    "7d": 60.0,
    "30d": 60.0,
}
"""How long what was read is shown again: pages refresh every two seconds, in every browser."""

_MOST: Final = 64
"""Answers that are kept."""

Source = Literal["all_gateways", "no_store", "store_away"]
"""all_gateways: of all that share the store. no_store, store_away: of this gateway only."""


class TrafficRead(Struct, frozen=True, kw_only=True):
    """The traffic of a window by backend, and where it is from."""

    by_backend: tuple[BackendSeries, ...]
    source: Source


class TrafficReader:
    """`current`: returns the gateway. Use it on the event loop."""

    def __init__(self, current: Callable[[], Gateway]) -> None:
        self._current = current
        self._kept: dict[tuple[Window, TrafficFilter], _Kept] = {}
        self._names: tuple[float, TrafficNames] = (float("-inf"), TrafficNames())

    async def read(
        self, window: Window, at: float, only: TrafficFilter = EVERYTHING
    ) -> TrafficRead:
        """Return the traffic of a window as of `at`, Unix seconds. Never waits longer than WAIT_S.

        What only the store knows is empty without it: windows longer than an hour, and the traffic
        of a key or team. Raises Unavailable if another process of this gateway does not answer.
        """
        gateway = self._current()
        own: tuple[BackendSeries, ...] = ()
        if window in IN_MEMORY and not only.of_whom:
            everything = await gateway.processes.series_by_backend(window, at)
            own = tuple(one for one in everything if _is_wanted(one, only))
        if gateway.store is None:
            return TrafficRead(by_backend=own, source="no_store")
        stored = await self._stored(gateway, window, at, only)
        if stored is None:
            return TrafficRead(by_backend=own, source="store_away")
        return TrafficRead(by_backend=fuller(stored, own), source="all_gateways")

    async def names(self) -> TrafficNames:
        """Return what the store has traffic of; nothing without a store that answers."""
        gateway = self._current()
        read_at, found = self._names
        if gateway.store is None or now() - read_at < FRESH_S["24h"]:
            return found
        try:
            async with asyncio.timeout(WAIT_S):
                found = await gateway.store.call(lambda store: TrafficRows(store.database).names())
        except (StoreUnavailable, Throttled, TimeoutError):
            return found
        self._names = now(), found
        return found

    async def _stored(
        self, gateway: Gateway, window: Window, at: float, only: TrafficFilter
    ) -> tuple[BackendSeries, ...] | None:
        """Return what the store has; `None` if it does not answer in time."""
        assert gateway.store is not None
        known = self._kept.get((window, only))
        if known is not None and now() - known.read_at < FRESH_S[window]:
            return known.series
        try:
            async with asyncio.timeout(WAIT_S):
                series = await gateway.store.call(
                    lambda store: TrafficRows(store.database).series(window, at, only)
                )
        except (StoreUnavailable, Throttled, TimeoutError):
            return None
        if len(self._kept) >= _MOST:
            self._kept.clear()
        self._kept[window, only] = _Kept(read_at=now(), series=series)
        return series


class _Kept(Struct, frozen=True, kw_only=True):
    """read_at: the clock's seconds."""

    read_at: float
    series: tuple[BackendSeries, ...]


def _is_wanted(series: BackendSeries, only: TrafficFilter) -> bool:
    return only.model in (None, series.model) and only.backend in (None, series.backend)
