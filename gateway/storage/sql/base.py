"""The interface of the store, whatever the database. Every call blocks: call it in a thread."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.statistics.interval_history import Point
from strowger_gateway.gateway.statistics.outcomes import Outcomes, Per
from strowger_gateway.gateway.statistics.sample_ratio import EpochCounts
from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.gateway.storage.sql.experiments.pause_epochs import PAUSED
from strowger_gateway.gateway.storage.sql.experiments.votes import Vote, Votes
from strowger_gateway.gateway.storage.sql.request_queries import RecordedRequest
from strowger_gateway.gateway.storage.sql.rows import Row
from strowger_gateway.gateway.storage.sql.spend_rows import SpendRows
from strowger_gateway.gateway.storage.sql.usage_rows import Usage


class ImportResult(Struct, frozen=True, kw_only=True):
    """The result of one import.

    rejected:   rows that the database rejected. why: its message for the first.
    unwanted:   feedback that is not stored: on requests of other API keys, or votes that came too
                late (`Experiment.votes_until`).
    """

    rows: int = 0
    rejected: int = 0
    unwanted: int = 0
    why: str = ""


class Sink(Protocol):
    """Where imported rows are stored. Each call is one transaction.

    Every call raises StoreUnavailable if the database cannot be reached; retry later.
    """

    def ping(self) -> None:
        """Check that the database is reachable and, every few seconds, that it can be written."""
        ...

    def position(self, file: str) -> int:
        """Return the position up to which a file was imported; 0 for an unknown file."""
        ...

    def import_rows(self, file: str, begin: int, end: int, rows: Sequence[Row]) -> ImportResult:
        """Import the rows between two positions of a file.

        Raises ConcurrentImport, and imports nothing, if the file is not at `begin` any more.
        """
        ...

    def forget(self, file: str) -> None:
        """Drop the position of a file that was removed."""
        ...

    def prune(
        self,
        before: float,
        waiting_before: float,
        usage_before: float = 0.0,
        payloads_before: float = 0.0,
    ) -> int:
        """Delete old requests, feedback whose request never came, sums of usage, and payloads.

        Limits in Unix seconds.

        Returns the number of deleted feedback rows without a request.
        """
        ...


class Epoch(Struct, frozen=True, kw_only=True):
    """A period in which an experiment did not change.

    number:      from 1. fingerprint: of all settings whose change starts a new epoch.
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

    @property
    def compares(self) -> bool:
        """Whether several variants have a weight."""
        return not self.paused and sum(share > 0 for share in self.shares.values()) > 1


def first_comparison(epochs: Sequence[Epoch]) -> int | None:
    """Return the first epoch in which several variants have a weight; `None` if there is none.

    In those before it, one variant had all units: they are the past of `adjust`.
    """
    return min((one.number for one in epochs if one.compares), default=None)


class Pause(Struct, frozen=True, kw_only=True):
    """The experiment is paused: control serves everyone until it is resumed. at: Unix seconds."""

    experiment: str
    reason: str
    at: float


class KnownRequest(Struct, frozen=True, kw_only=True):
    """A request in the store, and the API key that sent it.

    votes_until: Unix seconds, after which a vote on it does not count; `None`: always.
    """

    request_id: str
    key: str
    experiment: str
    variant: str
    votes_until: float | None = None


class RequestCounts(Struct, frozen=True, kw_only=True):
    """The requests of one epoch and variant, and how many of them another backend answered.

    last: end of the last one, Unix seconds; 0 for rows from before this was stored.
    """

    epoch: int
    variant: str
    requests: int
    fallbacks: int
    last: float = 0.0


class Run(Struct, frozen=True, kw_only=True):
    """An experiment with requests in the store, whether or not it is still configured.

    definition: as last passed to `define`; "" if it never was. requests, last: over all epochs and
    variants, as in RequestCounts.
    """

    experiment: str
    definition: str
    requests: int
    last: float


class Store(Protocol):
    """One database. Every call is its own transaction; safe to call from several threads.

    spend: what budgets are read from. database: for rows of other packages.
    """

    @property
    def spend(self) -> SpendRows: ...

    @property
    def database(self) -> Database: ...

    def epoch(
        self, experiment: str, fingerprint: str, shares: Mapping[str, float], now: float
    ) -> Epoch:
        """Return the current epoch: the last one if its fingerprint is the same, else a new one.

        All configurations share the epoch of a pause.
        """
        ...

    def epochs(self, experiment: str) -> tuple[Epoch, ...]: ...

    def define(
        self, experiment: str, definition: str, now: float, votes_until_s: float | None = None
    ) -> None:
        """Store the definition for when the configuration no longer has it; replaces the last.

        votes_until_s: seconds after the end of a request for which votes on it count.
        """
        ...

    def runs(self) -> Sequence[Run]:
        """Return every experiment with requests."""
        ...

    def pauses(self) -> Mapping[str, Pause]: ...

    def pause(self, experiment: str, reason: str, now: float) -> bool:
        """Pause until `resume`; return whether it is new. A second pause keeps the first reason.

        A paused epoch begins, so that a pause leaves one even if no process polls before `resume`.
        """
        ...

    def resume(self, experiment: str) -> bool:
        """Resume; return whether it was paused."""
        ...

    def paused_epochs(self) -> Mapping[str, int]:
        """Return by experiment the number of its last paused epoch."""
        ...

    def claim(self, name: str, every_s: float, now: float) -> bool:
        """Claim a periodic job: True if no process has claimed this name within `every_s`.

        A claim in the future, from a wrong clock, does not count. now: Unix seconds.
        """
        ...

    def metrics(self, experiment: str) -> Mapping[str, Votes]:
        """Return the feedback metrics with values, by name."""
        ...

    def votes(
        self,
        experiment: str,
        metric: str,
        limit: int,
        outside: tuple[float, float] | None = None,
    ) -> Sequence[Vote]:
        """Return the votes farthest from the metric's mean, farthest first.

        outside: only votes outside of these bounds.
        """
        ...

    def remove_vote(
        self, experiment: str, metric: str, request_id: str, event: AuditEvent | None = None
    ) -> int:
        """Delete the feedback of a metric on one request; return the number of deleted values.

        event: recorded in the audit log in the same transaction, if there are any.
        """
        ...

    def outcomes(self, experiment: str, metric: str, *, per: Per = "observation") -> Outcomes:
        """Return the moments of a metric (`error`, `ttft_ms`, …, or feedback) over all epochs."""
        ...

    def responses(self, experiment: str, metric: str) -> Outcomes:
        """Return the moments of "the request has a vote on this metric", over all epochs."""
        ...

    def counts(self, experiment: str) -> tuple[EpochCounts, ...]:
        """Return the units by epoch and variant, which the sample ratio test uses."""
        ...

    def request_counts(self, experiment: str) -> Sequence[RequestCounts]: ...

    def interval_points(self, experiment: str, metric: str) -> tuple[Point, ...]:
        """Return the history of a metric's intervals in order of time; POINTS at most."""
        ...

    def add_interval_point(self, experiment: str, metric: str, point: Point) -> bool:
        """Add a point to the history and drop redundant ones; return whether it was added.

        It is not added if another process has just added one.
        """
        ...

    def known_request(self, request_id: str) -> KnownRequest | None:
        """Return the owner of a request; `None` if it is unknown or not imported yet."""
        ...

    def recorded_request(self, request_id: str) -> RecordedRequest | None:
        """Return a request; `None` if it is unknown, not imported yet, or deleted as too old."""
        ...

    def recorded_before(self, time: float, limit: int) -> Sequence[RecordedRequest]:
        """Return the last `limit` requests that ended before `time`, Unix seconds, newest first."""
        ...

    def usage(self, periods: Sequence[tuple[int, int]]) -> list[Usage]:
        """Return what was used in each period, by payer.

        periods: from the first until before the second, Unix seconds, multiples of SLOT_S.
        """
        ...

    def close(self) -> None: ...
