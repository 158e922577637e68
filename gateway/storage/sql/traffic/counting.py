"""Count traffic: each request where it ended, each attempt where it was made.

Processes count in memory, and the importer counts what it stores, both by `count`. It is one file
because every request passes it.

Names come from the configuration, so that clients cannot increase its size.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, log
from typing import Final, Literal, Protocol

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.traffic.windows import CELLS, IN_MEMORY, STEPS, Window

FINEST_S: Final = 5
"""Seconds of the shortest interval in which requests are counted."""

_GROWTH = 1.1
_PER_LOG = 1.0 / log(_GROWTH)
_LEAST_MS = 0.01
"""Shorter durations count as this long."""

_BLAMELESS: Final = ("ok", "cancelled", "lost")
Outcome = Literal["answered", "failed", "client_error", "refused", "cancelled"]
"""answered: completely. failed: backends, or the gateway itself. client_error: the client sent
something wrong. refused: a rule of the operator refused it, although nothing was wrong. cancelled:
the client left."""

OWN_RULES: Final = frozenset({
    "limit_exceeded",
    "budget_exceeded",
    "too_many_wrong_keys",
    "price_unknown",
    "model_not_allowed",
    "content_blocked",
})  # fmt: skip
"""Codes of requests that the operator's own rules refuse, although nothing is wrong."""


def outcome_of(status: int, error: str, route: str, *, tried: bool) -> Outcome:
    """Return how a request ended.

    route: the model as configured; "" if none was looked up. tried: a backend was asked, or could
    not express the request.

    A 429 without an attempt is our own: by a rule, or before a model was looked up, by a key's
    share. Other 429s are of backends, also those that wait out a 429.
    """
    if status < 400:
        return "failed" if error else "answered"
    if status == 499:
        return "cancelled"
    if not tried and (error in OWN_RULES or status == 403 or (status == 429 and not route)):
        return "refused"
    if error == "content_blocked":
        return "refused"
    return "failed" if status >= 500 or status == 429 else "client_error"


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
    errors:   of these: failures of backends, or of the gateway itself (`outcome_of`).
    client_errors: of these: what the client sent was wrong.
    refused:  of these: the operator's own rules refused them, although nothing was wrong.
    attempts: at this backend, including mirrored copies.
    failed:   attempts that were neither ok nor cancelled, nor lost to a faster one.
    ttft, latency: milliseconds to the first content and to the end, as counts of a
              `QuantileSketch`.
    """

    time: int
    requests: int = 0
    errors: int = 0
    client_errors: int = 0
    refused: int = 0
    attempts: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    ttft: Mapping[int, int] = {}
    latency: Mapping[int, int] = {}


class TrafficSums:
    """A cell that is still being counted."""

    __slots__ = (
        "attempts",
        "client_errors",
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
        self.requests = self.errors = self.client_errors = self.refused = 0
        self.attempts = self.failed = self.prompt_tokens = self.completion_tokens = 0
        self.ttft, self.latency = QuantileSketch(), QuantileSketch()

    def add(self, other: "TrafficSums | TrafficCell") -> None:
        self.requests += other.requests
        self.errors += other.errors
        self.client_errors += other.client_errors
        self.refused += other.refused
        self.attempts += other.attempts
        self.failed += other.failed
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.ttft.merge(other.ttft if isinstance(other, TrafficCell) else other.ttft.counts)
        self.latency.merge(
            other.latency if isinstance(other, TrafficCell) else other.latency.counts
        )

    @property
    def counts(self) -> tuple[int, int, int, int, int, int, int, int]:
        """In the order of COUNTS."""
        return (
            self.requests,
            self.errors,
            self.client_errors,
            self.refused,
            self.attempts,
            self.failed,
            self.prompt_tokens,
            self.completion_tokens,
        )

    def add_counts(self, counts: Sequence[int]) -> None:
        """counts: in the order of COUNTS."""
        self.requests += counts[0]
        self.errors += counts[1]
        self.client_errors += counts[2]
        self.refused += counts[3]
        self.attempts += counts[4]
        self.failed += counts[5]
        self.prompt_tokens += counts[6]
        self.completion_tokens += counts[7]

    def cell(self, time: int) -> TrafficCell:
        return TrafficCell(
            time=time,
            requests=self.requests,
            errors=self.errors,
            client_errors=self.client_errors,
            refused=self.refused,
            attempts=self.attempts,
            failed=self.failed,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            ttft=dict(self.ttft.counts),
            latency=dict(self.latency.counts),
        )


COUNTS: Final = (
    "requests",
    "errors",
    "client_errors",
    "refused",
    "attempts",
    "failed",
    "prompt_tokens",
    "completion_tokens",
)


class Attempted(Protocol):
    """What counts of an attempt; see AttemptRecord."""

    @property
    def backend(self) -> str: ...
    @property
    def pattern(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def refused(self) -> bool: ...
    @property
    def role(self) -> str: ...


class Alike(Struct, frozen=True, gc=False):
    """Requests, at least one, that ended alike. Created by position.

    ms, first_ms: durations, and those until the first content, in milliseconds.
    """

    route: str
    status: int
    error: str
    attempts: Sequence[Attempted]
    many: int
    ms: Sequence[float]
    first_ms: Sequence[float]
    prompt_tokens: int
    completion_tokens: int


def count(requests: Alike, at: Callable[[str], TrafficSums]) -> None:
    """Count requests where they ended, and their attempts where they were made.

    at: returns the sums of a backend, as configured; of "" for requests without attempts.
    """
    many = requests.many
    ended: TrafficSums | None = None
    for attempt in requests.attempts:
        sums = at(attempt.pattern or attempt.backend)
        if not attempt.role:
            ended = sums
        if not attempt.refused:
            sums.attempts += many
            if attempt.outcome not in _BLAMELESS:
                sums.failed += many
    sums = at("") if ended is None else ended
    sums.requests += many
    match outcome_of(
        requests.status, requests.error, requests.route, tried=bool(requests.attempts)
    ):
        case "answered":
            sums.latency.add(requests.ms)
            sums.ttft.add(requests.first_ms)
        case "failed":
            sums.errors += many
        case "client_error":
            sums.client_errors += many
        case "refused":
            sums.refused += many
        case "cancelled":
            pass
    sums.prompt_tokens += requests.prompt_tokens
    sums.completion_tokens += requests.completion_tokens


class EndedLine(Protocol):
    """An ended request; see AccessLine."""

    @property
    def time(self) -> float: ...
    @property
    def route(self) -> str: ...
    @property
    def status(self) -> int: ...
    @property
    def error(self) -> str: ...
    @property
    def attempts(self) -> Sequence[Attempted]: ...


class EndedAlike(Protocol):
    """Requests that ended alike; see LineGroup."""

    @property
    def lines(self) -> Sequence[EndedLine]: ...
    @property
    def ms(self) -> Sequence[float]: ...
    @property
    def first_ms(self) -> Sequence[float]: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def completion_tokens(self) -> int: ...


Key = tuple[str, str]
"""Model and backend."""
Span = tuple[int, dict[Key, TrafficSums]]
"""A cell's start, Unix seconds, and what was counted in it."""


class TimeSeries:
    """The series of one process. Cells start at the same times in all, for `merge_series`."""

    def __init__(self) -> None:
        self._open: dict[Key, TrafficSums] = {}
        self._opened = 0
        self._past: dict[Window, deque[Span]] = {
            window: deque(maxlen=CELLS[window]) for window in IN_MEMORY
        }

    def add(self, groups: Iterable[EndedAlike]) -> None:
        """Count groups in the order in which they ended; a late one counts for the current cell."""
        for group in groups:
            time = int(group.lines[0].time) // FINEST_S * FINEST_S
            if time > self._opened:
                self._close(time)
            self._count(group)

    def spans(self, window: Window) -> list[Span]:
        """The cells of a window and older ones, in order, the last still open, each with its start.

        Raises KeyError for a window that is not IN_MEMORY.
        """
        return [*self._past[window], (self._opened, self._open)]

    def _close(self, time: int) -> None:
        """Finish the open cell: add it to every window."""
        if self._open:
            for window, past in self._past.items():
                step = STEPS[window]
                _fold(past, self._opened // step * step, self._open)
        self._open, self._opened = {}, time

    def _at(self, model: str, backend: str) -> TrafficSums:
        sums = self._open.get((model, backend))
        if sums is None:
            sums = self._open[model, backend] = TrafficSums()
        return sums

    def _count(self, group: EndedAlike) -> None:
        line = group.lines[0]
        count(
            Alike(
                line.route,
                line.status,
                line.error,
                line.attempts,
                len(group.lines),
                group.ms,
                group.first_ms,
                group.prompt_tokens,
                group.completion_tokens,
            ),
            lambda backend: self._at(line.route, backend),
        )


def _fold(past: deque[Span], time: int, sums: dict[Key, TrafficSums]) -> None:
    if not past or past[-1][0] != time:
        past.append((time, {}))
    cell = past[-1][1]
    for key, one in sums.items():
        cell.setdefault(key, TrafficSums()).add(one)
