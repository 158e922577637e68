"""What the store is asked, whichever database keeps it. All of it blocks: call it in a thread."""

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from gateway.experiments.statistics.interval_history import Point
from gateway.experiments.statistics.outcomes import Outcomes, Per
from gateway.experiments.statistics.sample_ratio import EpochCounts
from gateway.store.request_queries import RecordedRequest
from gateway.store.rows import Row
from gateway.store.unit_pages import UnitTotal

PAUSED = " paused"
"""Ends the fingerprint of an epoch in which control serves everyone."""


class ImportResult(Struct, frozen=True, kw_only=True):
    """refused: rows that no database would take. why: what it said of the first.

    foreign: feedback on somebody else's request, which is not kept.
    """

    rows: int = 0
    rejected: int = 0
    other_keys: int = 0
    why: str = ""


class Sink(Protocol):
    """Where imported rows are stored. Each call is one transaction.

    Every call raises StoreUnavailable if the database cannot be reached; retry later.
    """

    def ping(self) -> None:
        """Nothing, where it is there."""
        ...

    def position(self, file: str) -> int:
        """Up to where a file was taken: 0 for an unknown one."""
        ...

    def import_rows(self, file: str, begin: int, end: int, rows: Sequence[Row]) -> ImportResult:
        """Rows between two places of a file; nothing if the file is not at `begin` any more."""
        ...

    def forget(self, file: str) -> None:
        """The file is gone."""
        ...

    def prune(self, before: float, waiting_before: float) -> int:
        """Requests, and feedback that waits for its request, older than that, in Unix seconds.

        Returns how much feedback there was that waited in vain.
        """
        ...


class Epoch(Struct, frozen=True, kw_only=True):
    """A time in which an experiment did not change.

    number:      from 1. fingerprint: of everything that makes a change a change.
    shares:      the variants' weights. began: Unix seconds.
    """

    experiment: str
    number: int
    fingerprint: str
    shares: Mapping[str, float]
    began: float

    @property
    def paused(self) -> bool:
        return self.fingerprint.endswith(PAUSED)


class Pause(Struct, frozen=True, kw_only=True):
    """Everyone is served by control, until somebody resumes. at: Unix seconds."""

    experiment: str
    reason: str
    at: float


class KnownRequest(Struct, frozen=True, kw_only=True):
    """A request that the store has heard of, and whose it was."""

    request_id: str
    key: str
    experiment: str
    variant: str


class RequestCounts(Struct, frozen=True, kw_only=True):
    """Of one epoch and variant: requests, and those that another backend answered.

    last: when the last of them ended, Unix seconds; 0 of those that came before this was kept.
    """

    epoch: int
    variant: str
    requests: int
    fallbacks: int
    last: float = 0.0


class Votes(Struct, frozen=True, kw_only=True):
    """Feedback of one metric on one experiment.

    boolean:     all of it is. least, greatest: of the values that count.
    capped:      values that count as a lower one than was sent, the contract's cap.
    """

    boolean: bool
    least: float
    greatest: float
    capped: int = 0


class Vote(Struct, frozen=True, kw_only=True):
    """A value of feedback on an experiment's request.

    value: as it counts. given: as it was sent, where that is more than the contract's cap.
    time:  Unix seconds.
    """

    request_id: str
    key: str
    time: float
    epoch: int
    variant: str
    unit: str
    value: float
    given: float | None
    boolean: bool


class Run(Struct, frozen=True, kw_only=True):
    """An experiment that requests took part in, whether or not it is still configured.

    definition: as it was last told to `define`; "" where it never was. requests, last: of all
    epochs and variants, as of `Answered`.
    """

    experiment: str
    definition: str
    requests: int
    last: float


class Store(Protocol):
    """One database. Every call is a transaction of its own; safe to call from several threads."""

    def epoch(
        self, experiment: str, fingerprint: str, shares: Mapping[str, float], now: float
    ) -> Epoch:
        """The current epoch: the last one where the fingerprint is the same, else a new one."""
        ...

    def epochs(self, experiment: str) -> tuple[Epoch, ...]: ...

    def define(self, experiment: str, definition: str, now: float) -> None:
        """Keep what it is, for when no configuration tells any more; the last one counts."""
        ...

    def runs(self) -> Sequence[Run]:
        """Every experiment that requests took part in."""
        ...

    def pauses(self) -> Mapping[str, Pause]: ...

    def pause(self, experiment: str, reason: str, now: float) -> bool:
        """Kept until `resume`; a second pause keeps the first one's reason. Whether it is new."""
        ...

    def resume(self, experiment: str) -> bool:
        """Whether it was paused."""
        ...

    def claim(self, name: str, every_s: float, now: float) -> bool:
        """Whether it is the caller's turn: nobody had one of this name within `every_s`.

        Or somebody had one in the future, by a clock that is wrong. now: Unix seconds.
        """
        ...

    def metrics(self, experiment: str) -> Mapping[str, Votes]:
        """The feedback metrics that came in."""
        ...

    def votes(
        self,
        experiment: str,
        metric: str,
        limit: int,
        outside: tuple[float, float] | None = None,
    ) -> Sequence[Vote]:
        """Those farthest from the metric's mean, the farthest first; `outside` of bounds alone."""
        ...

    def remove_vote(self, experiment: str, metric: str, request_id: str) -> int:
        """Take back the feedback of a metric on one request. How many values that were."""
        ...

    def outcomes(self, experiment: str, metric: str, *, per: Per = "observation") -> Outcomes:
        """Moments of a metric (`error`, `ttft_ms`, …, or of feedback) over all epochs."""
        ...

    def units(self, experiment: str) -> Generator[Sequence[UnitTotal]]:
        """The rows of all metrics, in pages; all of one moment. Close it where it is not used up.

        Raises StoreUnavailable with any page.
        """
        ...

    def responses(self, experiment: str, metric: str) -> Outcomes:
        """Moments of whether a request had a vote on a metric of feedback, over all epochs."""
        ...

    def counts(self, experiment: str) -> tuple[EpochCounts, ...]:
        """Units by epoch and variant, for the ratio alarm."""
        ...

    def request_counts(self, experiment: str) -> Sequence[RequestCounts]: ...

    def interval_points(self, experiment: str, metric: str) -> tuple[Point, ...]:
        """How the intervals of a metric moved, in order of time; POINTS at most."""
        ...

    def add_interval_point(self, experiment: str, metric: str, point: Point) -> bool:
        """Add a point to a course, and drop what it can do without then. Whether it was added:

        where somebody else has added one just now, it was not.
        """
        ...

    def known_request(self, request_id: str) -> KnownRequest | None:
        """`None`: never heard of, or so far only by a worker whose rows were not imported yet."""
        ...

    def recorded_request(self, request_id: str) -> RecordedRequest | None:
        """`None`: as of `known`, or too old."""
        ...

    def recorded_before(self, time: float, limit: int) -> Sequence[RecordedRequest]:
        """The last `limit` requests that ended before `time`, Unix seconds, the last one first."""
        ...

    def close(self) -> None: ...
