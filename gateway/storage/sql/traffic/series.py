"""Traffic as series of cells, and how those of several processes and of the store add up."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.traffic.counting import (
    TimeSeries,
    TrafficCell,
    TrafficSums,
)
from strowger_gateway.gateway.storage.sql.traffic.windows import STEPS, Window, span_of


class BackendSeries(Struct, frozen=True, kw_only=True):
    """The cells of one backend of one model, oldest first; intervals without traffic have none."""

    model: str
    backend: str
    cells: tuple[TrafficCell, ...]


def by_backend(counted: TimeSeries, window: Window, now: float) -> tuple[BackendSeries, ...]:
    """The cells of a window as of `now`, Unix seconds; the last one is incomplete.

    Raises KeyError for a window that is not IN_MEMORY.
    """
    step, (oldest, _) = STEPS[window], span_of(window, now)
    cells: dict[_Key, list[TrafficCell]] = {}
    for began, sums in counted.spans(window):
        for key, one in sums.items():
            cells.setdefault(key, []).append(one.cell(began // step * step))
    return tuple(
        BackendSeries(model=model, backend=backend, cells=joined(found, oldest))
        for (model, backend), found in sorted(cells.items())
    )


_Key = tuple[str, str]


def merge_series(parts: Sequence[Sequence[BackendSeries]]) -> tuple[BackendSeries, ...]:
    """Merge the series of several processes."""
    cells: dict[_Key, list[TrafficCell]] = {}
    for series in (series for part in parts for series in part):
        cells.setdefault((series.model, series.backend), []).extend(series.cells)
    return tuple(
        BackendSeries(model=model, backend=backend, cells=joined(found))
        for (model, backend), found in sorted(cells.items())
    )


def fuller(
    stored: Sequence[BackendSeries], own: Sequence[BackendSeries]
) -> tuple[BackendSeries, ...]:
    """Of each cell, take the one with more in it: the store's, or this gateway's own.

    The store has the requests of all gateways, some of them seconds late; a gateway knows its own
    at once. No request counts twice, but a cell in which several gateways have answered misses what
    one of them has not stored yet: the smaller of what the two sides know alone.
    """
    cells: dict[_Key, dict[int, TrafficCell]] = {}
    for series in (*stored, *own):
        found = cells.setdefault((series.model, series.backend), {})
        for cell in series.cells:
            known = found.get(cell.time)
            if known is None or _size(cell) > _size(known):
                found[cell.time] = cell
    return tuple(
        BackendSeries(
            model=model, backend=backend, cells=tuple(found[time] for time in sorted(found))
        )
        for (model, backend), found in sorted(cells.items())
    )


def by_time(
    by_backend: Iterable[BackendSeries], wanted: Callable[[BackendSeries], bool]
) -> dict[int, TrafficCell]:
    """Add up the cells of all wanted series by time."""
    cells = [cell for series in by_backend if wanted(series) for cell in series.cells]
    return {cell.time: cell for cell in joined(cells)}


def total(cells: Iterable[TrafficCell]) -> TrafficCell:
    """Add up all cells to one, with time 0."""
    return _sum((TrafficCell(time=0), *cells))


def joined(cells: Iterable[TrafficCell], oldest: int = 0) -> tuple[TrafficCell, ...]:
    """Merge cells of the same time, in order of time."""
    at: dict[int, list[TrafficCell]] = {}
    for cell in cells:
        if cell.time >= oldest:
            at.setdefault(cell.time, []).append(cell)
    return tuple(at[time][0] if len(at[time]) == 1 else _sum(at[time]) for time in sorted(at))


def _size(cell: TrafficCell) -> tuple[int, int]:
    return cell.requests, cell.attempts


def _sum(cells: Sequence[TrafficCell]) -> TrafficCell:
    sums = TrafficSums()
    for cell in cells:
        sums.add(cell)
    return sums.cell(cells[0].time)
