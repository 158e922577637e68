"""Turn each finished request into its access line, metrics, traffic series and usage record."""

import asyncio
import logging
import time
from collections.abc import Callable
from secrets import token_hex

from strowger_gateway.gateway.governance.attribution.attributor import TELLING, Attributor
from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.observability.recording.rows_from_request import (
    access_line,
    attempts_of,
    request_batch,
)
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog, as_json, grouped
from strowger_gateway.gateway.observability.telemetry.metrics import Metrics
from strowger_gateway.gateway.observability.telemetry.mirror_log_entry import MirrorLogEntry
from strowger_gateway.gateway.observability.telemetry.recent_requests import (
    MAX_MESSAGE_CHARS,
    Reasons,
    RecentRequest,
    RecentRequests,
)
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.prices import Prices
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, Recorder
from strowger_gateway.gateway.storage.sql.traffic.counting import TimeSeries
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries, by_backend
from strowger_gateway.gateway.storage.sql.traffic.windows import Window

_log = logging.getLogger("strowger")

_BATCH, _FLUSH_S = 64, 0.2
"""Finished requests are written after this many, or after this many seconds."""

MAX_RECENT = 1000
"""Requests kept in memory for the page, without prompts and responses: less than a megabyte."""


class RequestLog:
    """The finished requests of one process. Every reader flushes first, so nothing is missing.

    series: the traffic by backend. recorder: of usage and outcomes; `None` keeps no records.
    takers: of parts, called with the requests that have ended.
    attributor: of client programs and tags. budgets: settled by what is recorded.
    """

    def __init__(self, access_log: AccessLog, recorder: Recorder | None) -> None:
        self.budgets = Budgets((), token_hex(8))
        self.attributor = Attributor()
        self._batch = 0
        self.metrics = Metrics()
        self.series = TimeSeries()
        self.access_log = access_log
        self.recorder = recorder
        self._recent = RecentRequests(MAX_RECENT)
        self._since_asked = 0
        self._finished: list[tuple[RequestRecord, int, float, Prices]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.takers: list[Callable[[EndedRequests], None]] = []

    @property
    def writer(self) -> str:
        """The name of this process in records."""
        return self.budgets.writer

    def record_request(
        self, record: RequestRecord, status: int, ended: float, prices: Prices
    ) -> None:
        """Record a request once, when it has ended in whatever way. ended: loop time, seconds.

        prices: of the generation that it began with, because a reload may remove its provider.

        Lines and metrics are made from many requests at a time, which keeps their code and data
        in the processor's caches: that takes a sixth of the time of making them one by one.
        """
        self._finished.append((record, status, ended, prices))
        if len(self._finished) >= _BATCH:
            self._process_finished()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_S, self.flush)

    def flush(self) -> None:
        """Turn the requests finished so far into access lines, metrics, series and records."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._process_finished()
        self.access_log.hand_over()

    def _process_finished(self) -> None:
        finished, self._finished = self._finished, []
        if not finished:
            return
        offset = time.time() - now()
        known, attribute = self.attributor.known, self.attributor.attribute
        for record, *_ in finished:
            fields = record.fields
            name = known.get(fields.get(b"user-agent", b""))
            if name is None or record.metadata or not TELLING.isdisjoint(fields):
                attribute(record)
            else:
                record.client = name
        lines = [
            access_line(record, status, ended, offset, prices)
            for record, status, ended, prices in finished
        ]
        records = [one[0] for one in finished]
        attempts: list[AttemptRow] = []
        groups = grouped(lines)
        self.metrics.count(groups)
        self.series.add(groups)
        for (record, _, _, prices), line in zip(finished, lines, strict=True):
            if len(line.attempts) > 1:
                rows = list(attempts_of(record, line.time, prices))
                self.metrics.count_attempts_usage(line, rows)
                attempts += rows
        self._since_asked += len(lines)
        encoded = as_json(lines)
        self._recent.add(encoded, list(map(_reasons, records)))
        self._batch += 1
        for take in self.takers:
            try:
                take(
                    EndedRequests(
                        finished,
                        lines,
                        groups,
                        attempts,
                        self._batch,
                        offset,
                        self.metrics.exemplify,
                    )
                )
            except Exception:  # noqa: BLE001  it must not cost the line and the record
                part = take.__module__
                _log.exception("internal error: part %s: taking ended requests failed", part)
                self.metrics.internal_errors.count("parts")
        self.access_log.add(lines, encoded)
        if self.recorder is not None:
            self.recorder.add(request_batch(records, encoded, attempts, self.writer, self._batch))

    def record_mirrored(self, line: MirrorLogEntry, row: AttemptRow | None) -> None:
        """Record a copy that was sent to a mirror. row: its usage, if it was answered."""
        self.metrics.mirrors.book(line)
        if row is not None:
            place = line.route, line.pattern or line.mirror
            self.metrics.count_usage(place, row)
        self.access_log.add((line,))
        self.access_log.hand_over()
        if self.recorder is not None and row is not None:
            self.recorder.add(row)

    def has_new_counts(self) -> bool:
        """Whether requests have ended since the last call."""
        self.flush()
        ended, self._since_asked = self._since_asked, 0
        return ended > 0

    def own_series(self, window: Window, at: float) -> tuple[BackendSeries, ...]:
        """This process's traffic by backend. at: Unix seconds."""
        self.flush()
        return by_backend(self.series, window, at)

    def own_recent(self, limit: int, request_id: str = "") -> list[RecentRequest]:
        """This process's last requests, the newest first.

        request_id: only those with this id, the gateway's or the client's.
        """
        self.flush()
        return self._recent.newest(limit, request_id)


def _reasons(record: RequestRecord) -> Reasons:
    return Reasons(
        record.rule,
        record.candidates,
        record.ruled_out,
        record.refusal[:MAX_MESSAGE_CHARS],
        record.participation.exclusion,
    )
