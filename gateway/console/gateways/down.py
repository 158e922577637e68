"""The backends that do not work or take no requests, as one process, and as one gateway knows."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from strowger_gateway.gateway.console.gateways.report import DownBackend
from strowger_gateway.gateway.routing.backend_status import BackendStatus, status_of
from strowger_gateway.gateway.routing.planning.route import Backend

MOST: Final = 200
"""Backends that a gateway reports."""

_ORDER: Final = ("refused", "open", "failing", "cooldown", "disabled", "draining")
"""The worst state first: processes of one gateway may differ for a moment."""


def down_of(backends: Mapping[str, Backend], at: float, now: float) -> tuple[DownBackend, ...]:
    """Return those of one process.

    backends: by `MODEL: PROVIDER/MODEL`. at: the clock's seconds. now: Unix seconds.
    """
    return tuple(_down_of(backends, at, now))[:MOST]


def together(processes: Iterable[Iterable[DownBackend]]) -> tuple[DownBackend, ...]:
    """Return those of a gateway: each with its worst state, and the earliest time of that."""
    found: dict[tuple[str, str], DownBackend] = {}
    for one in (one for many in processes for one in many):
        place = one.model, one.backend
        known = found.get(place)
        if known is None or _weight(one) < _weight(known):
            found[place] = one
    return tuple(found[place] for place in sorted(found))[:MOST]


def _weight(one: DownBackend) -> tuple[int, float]:
    return _ORDER.index(one.state), one.since or float("inf")


def _down_of(backends: Mapping[str, Backend], at: float, now: float) -> Iterator[DownBackend]:
    for name, backend in backends.items():
        status = status_of(backend, at)
        if status.up:
            continue
        model, _, place = name.partition(": ")
        since = None if status.down_for_s is None else now - status.down_for_s
        yield DownBackend(model=model, backend=place, state=_state(status), since=since)


def _state(status: BackendStatus) -> str:
    if status.held is not None:
        return status.held.state
    return "cooldown" if status.phase == "up" else status.phase
