"""Traffic of the last hour by model and backend, in memory: the source of the charts at /admin.

Requests are counted in cells of 5 seconds. A finished cell is added to coarser ones, so that
reading an hour costs as much as reading five minutes: 60 cells. Names come from the
configuration, so that clients cannot increase its size.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, log
from typing import Literal

from msgspec import Struct

from strowger_gateway.gateway.observability.telemetry.access_log import (
    CELL_S,
    AccessLine,
    LineGroup,
)

Window = Literal["5m", "15m", "1h"]
CELLS = 60
STEPS: dict[Window, int] = {"5m": 5, "15m": 15, "1h": 60}
"""Seconds of one cell of each window."""

_GROWTH = 1.1
_PER_LOG = 1.0 / log(_GROWTH)
_LEAST_MS = 0.01
"""Shorter durations count as this long."""

_OWN_RULES = frozenset({"limit_exceeded", "budget_exceeded", "too_many_wrong_keys"})
"""Codes of requests that the operator's own rules refuse, although nothing is wrong."""

_BLAMELESS = ("ok", "cancelled", "lost")


class QuantileSketch:
    """Durations in milliseconds as a few counts, for quantiles with 5 % accuracy.

    The counts are of intervals that grow by a constant factor, interval i being (1.1^(i-1), 1.1^i],
    so that two sketches are merged by adding their counts, and the range has no upper limit.
    Masson, Rim and Lee: DDSketch (2019), section 2.1, https://arxiv.org/abs/1908.10693
    """

    __slots__ = ("counts",)

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})

    def add(self, many: Iterable[float]) -> None:
        """Add durations in milliseconds."""
        counts = self.counts
        for ms in many:
            at_least = ms if ms > _LEAST_MS else _LEAST_MS  # noqa: FURB136  a call less
            index = ceil(log(at_least) * _PER_LOG)
            counts[index] = counts.get(index, 0) + 1

    def merge(self, counts: Mapping[int, int]) -> None:
        own = self.counts
        for index, count in counts.items():
            own[index] = own.get(index, 0) + count

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float) -> float | None:
        """The quantile `share` (0 to 1), in milliseconds; `None` if the sketch is empty."""
        wanted = share * (self.count - 1)
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen > wanted:
                return 2.0 * _GROWTH**index / (_GROWTH + 1.0)
        return None


class TrafficCell(Struct, frozen=True, kw_only=True):
    """Counts of one backend in an interval that starts at `time`, Unix seconds.

    requests: that ended with this backend, or without any attempt (backend "").
    errors:   of these: 5xx, broken off after a 200, or 429 because of backends.
    refused:  other 4xx except 499, and what limits, budgets and shares of ours refuse.
    attempts: at this backend, including mirrored copies.
    failed:   attempts that were neither ok nor cancelled, nor lost to a faster one.
    ttft, latency: milliseconds to the first content and to the end, as counts of a
              `QuantileSketch`.
    """

    time: int
    requests: int = 0
    errors: int = 0
    refused: int = 0
    attempts: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    ttft: dict[int, int] = {}
    latency: dict[int, int] = {}


class BackendSeries(Struct, frozen=True, kw_only=True):
    """The cells of one backend of one model, oldest first; intervals without traffic have none."""

    model: str
    backend: str
    cells: tuple[TrafficCell, ...]


class _Sums:
    """A cell that is still being counted."""

    __slots__ = (
        "attempts",
        "completion_tokens",
        "errors",
        "failed",
        "latency",
        "prompt_tokens",
        "refused",
        "requests",
        "ttft",
    )

    def __init__(self) -> None:
        self.requests = self.errors = self.refused = self.attempts = self.failed = 0
        self.prompt_tokens = self.completion_tokens = 0
        self.ttft, self.latency = QuantileSketch(), QuantileSketch()

    def add(self, other: "_Sums | TrafficCell") -> None:
        self.requests += other.requests
        self.errors += other.errors
        self.refused += other.refused
        self.attempts += other.attempts
        self.failed += other.failed
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.ttft.merge(other.ttft if isinstance(other, TrafficCell) else other.ttft.counts)
        self.latency.merge(
            other.latency if isinstance(other, TrafficCell) else other.latency.counts
        )

    def cell(self, time: int) -> TrafficCell:
        return TrafficCell(
            time=time,
            requests=self.requests,
            errors=self.errors,
            refused=self.refused,
            attempts=self.attempts,
            failed=self.failed,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            ttft=dict(self.ttft.counts),
            latency=dict(self.latency.counts),
        )


_Key = tuple[str, str]
_Span = tuple[int, dict[_Key, _Sums]]


class TimeSeries:
    """The series of one process. Cells start at the same times in all, for `merge_series`."""

    def __init__(self) -> None:
        self._open: dict[_Key, _Sums] = {}
        self._opened = 0
        self._past: dict[Window, deque[_Span]] = {window: deque(maxlen=CELLS) for window in STEPS}

    def add(self, groups: Iterable[LineGroup]) -> None:
        """Count groups in the order in which they ended; a late one counts for the current cell."""
        for group in groups:
            time = int(group.lines[0].time) // CELL_S * CELL_S
            if time > self._opened:
                self._close(time)
            self._count(group)

    def by_backend(self, window: Window, now: float) -> tuple[BackendSeries, ...]:
        """The last 60 cells of a window as of `now`, Unix seconds; the last cell is incomplete."""
        step = STEPS[window]
        oldest = (int(now) // step - CELLS + 1) * step
        spans = [*self._past[window], (self._opened, self._open)]
        cells: dict[_Key, list[TrafficCell]] = {}
        for began, sums in spans:
            for key, one in sums.items():
                cells.setdefault(key, []).append(one.cell(began // step * step))
        return tuple(
            BackendSeries(model=model, backend=backend, cells=_joined(found, oldest))
            for (model, backend), found in sorted(cells.items())
        )

    def _close(self, time: int) -> None:
        """Finish the open cell: add it to every window."""
        if self._open:
            for window, step in STEPS.items():
                _fold(self._past[window], self._opened // step * step, self._open)
        self._open, self._opened = {}, time

    def _at(self, model: str, backend: str) -> _Sums:
        sums = self._open.get((model, backend))
        if sums is None:
            sums = self._open[model, backend] = _Sums()
        return sums

    def _count(self, group: LineGroup) -> None:
        line, count = group.lines[0], len(group.lines)
        ended: _Sums | None = None
        for attempt in line.attempts:
            sums = self._at(line.route, attempt.pattern or attempt.backend)
            if not attempt.role:
                ended = sums
            if not attempt.refused:
                sums.attempts += count
                if attempt.outcome not in _BLAMELESS:
                    sums.failed += count
        sums = ended or self._at(line.route, "")
        sums.requests += count
        status = line.status
        if status == 429 and is_own_refusal(line):
            sums.refused += count
        elif status >= 500 or status == 429 or (status < 400 and line.error):
            sums.errors += count
        elif status < 400:
            sums.latency.add(group.ms)
            sums.ttft.add(group.first_ms)
        elif status != 499:
            sums.refused += count
        sums.prompt_tokens += group.prompt_tokens
        sums.completion_tokens += group.completion_tokens


def is_own_refusal(line: AccessLine) -> bool:
    """Whether a 429 is our own: by a rule, or before a model was looked up, by a key's share."""
    return not line.attempts and (line.error in _OWN_RULES or not line.route)


def merge_series(parts: Sequence[Sequence[BackendSeries]]) -> tuple[BackendSeries, ...]:
    """Merge the series of several processes."""
    cells: dict[_Key, list[TrafficCell]] = {}
    for series in (series for part in parts for series in part):
        cells.setdefault((series.model, series.backend), []).extend(series.cells)
    return tuple(
        BackendSeries(model=model, backend=backend, cells=_joined(found))
        for (model, backend), found in sorted(cells.items())
    )


def by_time(
    by_backend: Iterable[BackendSeries], wanted: Callable[[BackendSeries], bool]
) -> dict[int, TrafficCell]:
    """Add up the cells of all wanted series by time."""
    cells = [cell for series in by_backend if wanted(series) for cell in series.cells]
    return {cell.time: cell for cell in _joined(cells)}


def total(cells: Iterable[TrafficCell]) -> TrafficCell:
    """Add up all cells to one, with time 0."""
    return _sum((TrafficCell(time=0), *cells))


def _joined(cells: Iterable[TrafficCell], oldest: int = 0) -> tuple[TrafficCell, ...]:
    """Merge cells of the same time, in order of time."""
    at: dict[int, list[TrafficCell]] = {}
    for cell in cells:
        if cell.time >= oldest:
            at.setdefault(cell.time, []).append(cell)
    return tuple(at[time][0] if len(at[time]) == 1 else _sum(at[time]) for time in sorted(at))


def _sum(cells: Sequence[TrafficCell]) -> TrafficCell:
    sums = _Sums()
    for cell in cells:
        sums.add(cell)
    return sums.cell(cells[0].time)


def _fold(past: deque[_Span], time: int, sums: dict[_Key, _Sums]) -> None:
    if not past or past[-1][0] != time:
        past.append((time, {}))
    cell = past[-1][1]
    for key, one in sums.items():
        cell.setdefault(key, _Sums()).add(one)
