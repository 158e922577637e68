"""Requests that have ended, as parts take them: some at a time, when they are recorded."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, LineGroup
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.storage.sql.rows import AttemptRow


def _unmeasured(line: AccessLine, trace_id: str) -> None:
    """For requests that no metric counts."""


class EndedRequests(Struct, frozen=True, eq=False):
    """Created by position.

    finished: each with its status, its end by the clock, and the prices of its generation.
    lines:    of the access log, in the same order. groups: the same, those that ended alike.
    attempts: of requests with several. batch: the number of the batch of records.
    offset:   Unix time minus the clock, seconds.
    exemplify: names the trace of a request in the metrics that it counts in.
    """

    finished: Sequence[tuple[RequestRecord, int, float, object]]
    lines: Sequence[AccessLine]
    groups: Sequence[LineGroup]
    attempts: Sequence[AttemptRow]
    batch: int
    offset: float
    exemplify: Callable[[AccessLine, str], None] = _unmeasured


@runtime_checkable
class TakesEnded(Protocol):
    """The side of a part that takes ended requests, in a serving process."""

    def taker(self) -> "Callable[[EndedRequests], None] | None":
        """Return what takes them; `None` while nothing needs them.

        Asked when a configuration takes effect, and after `stages_changed`. It costs each request,
        so what takes long is for later.
        """
        ...
