"""What the requests of one process share: the current configuration, counts, and the books."""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from math import inf
from pathlib import Path
from typing import Protocol

from gateway.access.auth import Caller
from gateway.access.ended_sessions import EndedSessions
from gateway.access.key_shares import KeyUsages, Reservation
from gateway.access.wrong_keys import WrongKeyThrottle
from gateway.asgi.cors import Cors
from gateway.asgi.large_bodies import Turns
from gateway.asgi.sse_keepalive import KeepAlive
from gateway.clock import now
from gateway.config.schema_store import SPOOL
from gateway.experiments.service.background_jobs import ExperimentJobs
from gateway.experiments.service.experiment_service import ExperimentService
from gateway.experiments.service.history import ExperimentHistory
from gateway.mirror.mirroring import Mirrors
from gateway.recording.rows_from_request import access_line, attempts_of, request_batch
from gateway.routing.planning.enrolment import fingerprint
from gateway.routing.planning.plan import Plan
from gateway.routing.planning.prices import Prices
from gateway.routing.request_record import RequestRecord
from gateway.runtime import Runtime
from gateway.store.rows import AttemptRow, Recorder
from gateway.telemetry.access_log import AccessLine, AccessLog, as_json
from gateway.telemetry.engine_reports import EngineReport, EngineReports
from gateway.telemetry.metric_snapshot import Families, added, families, text
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.mirror_log_entry import MirrorLogEntry
from gateway.telemetry.recent_requests import MAX_MESSAGE_CHARS, RecentRequest, RecentRequests
from gateway.telemetry.time_series import BackendSeries, TimeSeries, Window, merged
from schemas.answers import Answer, Embeddings
from schemas.errors import Throttled, Unavailable
from schemas.requests import Request

_BATCH, _BOOK_S = 64, 0.2
"""Notes are written up when there are so many, or after so many seconds."""

MIRRORING_UP_TO = 0.5
"""Of `max_in_flight`; with more requests than that under way, no copy is sent."""


class Peers(Protocol):
    """The other processes of the gateway. Raises Unavailable when they do not tell."""

    async def counted(self) -> Sequence[Families]:
        """What each of them has counted."""
        ...

    async def strands(self, window: Window, at: float) -> Sequence[tuple[BackendSeries, ...]]:
        """What each of them has seen of the traffic. at: Unix seconds."""
        ...

    async def recent(self, limit: int, request_id: str) -> Sequence[list[RecentRequest]]:
        """What each of them keeps: see `Gateway.kept`."""
        ...

    async def past(self) -> ExperimentHistory:
        """How experiments went, as the one that leads has noted."""
        ...


class Nobody:
    """The peers of a process that is alone."""

    async def counted(self) -> Sequence[Families]:
        return ()

    async def strands(self, window: Window, at: float) -> Sequence[tuple[BackendSeries, ...]]:
        return ()

    async def recent(self, limit: int, request_id: str) -> Sequence[list[RecentRequest]]:
        return ()

    async def past(self) -> ExperimentHistory:
        return ExperimentHistory()


class Gateway:
    """One process's state. `runtime` is replaced as a whole; requests keep the one they took.

    draining: /readyz says no. refusing: new requests get 503. in_flight: requests being
    answered. buffered: bytes of their bodies. refused: the configuration's file, as it is now,
    cannot be served, and an older one is in force. others_in_flight, others_buffered: of
    the other processes, as last heard. worker: this process's number among those that serve.
    ended: sessions that were signed out.
    trials: the experiments, where there is a store. minding: of them, where this process leads.
    """

    def __init__(
        self,
        runtime: Runtime,
        access_log: AccessLog,
        *,
        recorder: Recorder | None = None,
        seed: int | None = None,
    ) -> None:
        """recorder: of usage and outcomes; `None` keeps none of them.

        seed: of the draws that policies use; `None` takes the system's randomness.
        """
        server = runtime.config.server
        self.runtime = runtime
        self.metrics = Metrics()
        self.series = TimeSeries()
        self.decisions = RecentRequests()
        self.access_log = access_log
        self.recorder = recorder
        self.keepalive = KeepAlive(server.sse_keepalive_s)
        self.cors = Cors(server.cors.allow_origins)
        self.random = random.Random(seed)
        self.shares = KeyUsages()
        self.guesses = WrongKeyThrottle()
        self.large = Turns()
        self.mirrors = Mirrors(self._book_mirrored)
        self.trials: ExperimentService | None = None
        self.minding: ExperimentJobs | None = None
        self.peers: Peers = Nobody()
        self._reports = EngineReports()
        self.ended = EndedSessions(Path(runtime.config.store.spool or SPOOL))
        self.worker = 0
        self._booked = 0
        self._notes: list[tuple[RequestRecord, int, float, Prices]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.started_at = int(time.time())
        self.draining = False
        self.refusing = False
        self.refused = False
        self.idle = asyncio.Event()
        self.in_flight = self.others_in_flight = 0
        self.buffered = self.others_buffered = 0

    def adopt(self, runtime: Runtime) -> None:
        """From now on requests begin with this one."""
        server = runtime.config.server
        self.write_books()
        self.runtime = runtime
        self.keepalive.silence_s = server.sse_keepalive_s
        self.cors = Cors(server.cors.allow_origins)

    def enter(self) -> Runtime:
        """A request begins: with this configuration, to its end."""
        self.in_flight += 1
        runtime = self.runtime
        runtime.in_flight += 1
        return runtime

    def leave(self, runtime: Runtime) -> None:
        """runtime: what `enter` gave."""
        runtime.in_flight -= 1
        self.in_flight -= 1
        if self.refusing and self.in_flight == 0:
            self.idle.set()

    def refuse(self) -> None:
        """From now on new requests get 503; `idle` is set when the last running one has ended."""
        self.refusing = True
        if self.in_flight == 0:
            self.idle.set()

    @property
    def unrecorded(self) -> bool:
        """Whether requests are refused because `store.usage` requires records, which are lost."""
        required = self.runtime.config.store.usage == "required"
        return required and self.recorder is not None and self.recorder.full

    def admit(self) -> None:
        """Raises Unavailable while draining, or with `max_in_flight` requests under way.

        Also while it is `unrecorded`.
        """
        if self.refusing:
            raise Unavailable("the gateway is shutting down", retry_after=1)
        config = self.runtime.config
        if self.in_flight + self.others_in_flight > config.server.max_in_flight:
            raise Unavailable(
                f"{config.server.max_in_flight} requests are being answered already", retry_after=1
            )
        if self.unrecorded:
            raise Unavailable("what requests use cannot be recorded now", retry_after=5)

    def hold(self, caller: Caller) -> Reservation:
        """A place for a request of this key; to be closed at its end.

        Raises Throttled for a key that has its share of `max_in_flight`, where there are others.
        Each process counts its own, of what the others leave.
        """
        share = self.shares.of(caller.name)
        server = self.runtime.config.server
        if self.runtime.several_keys and share.in_flight >= server.max_share_per_key * (
            server.max_in_flight - self.others_in_flight
        ):
            raise Throttled(
                f"the API key {caller.name!r} has {share.in_flight} requests under way, the most "
                "that one key may have (server.max_share_per_key of server.max_in_flight)",
                retry_after=1,
            )
        return Reservation(self, share, self._room)

    def _room(self) -> float:
        """Bytes that the bodies of one key may take: all, where it is the only one."""
        if not self.runtime.several_keys:
            return inf
        server = self.runtime.config.server
        return server.max_share_per_key * (server.max_buffered_bytes - self.others_buffered)

    def mirror(
        self,
        plan: Plan,
        request: Request,
        record: RequestRecord,
        answer: Answer | Embeddings,
        runtime: Runtime,
    ) -> None:
        """Send the copy that goes with a request, unless clients need what there is."""
        limit = self.runtime.config.server.max_in_flight
        busy = self.refusing or self.in_flight > limit * MIRRORING_UP_TO
        self.mirrors.offer(plan, request, record, answer, runtime, busy=busy)

    async def finished(self) -> None:
        """After `refuse`: once every running request has ended, and every copy."""
        await self.idle.wait()
        await self.mirrors.wait_idle()

    def buffer(self, size: int) -> None:
        """Claim memory for a body; give it back with `release`. Raises Unavailable when full."""
        limit = self.runtime.config.server.max_buffered_bytes
        if self.buffered + self.others_buffered + size > limit:
            raise Unavailable("too many request bodies are in memory", retry_after=1)
        self.buffered += size

    def release(self, size: int) -> None:
        self.buffered -= size

    def model_names(self, caller: Caller) -> list[str]:
        """What a key may ask for by name: models, aliases and wildcards are its own business."""
        table = self.runtime.table
        named = [(name, name) for name in table.routes if not name.endswith("*")]
        named += list(table.aliases.items())
        return [asked for asked, route in named if caller.may_use(asked, route)]

    async def engine_reports(self) -> tuple[EngineReport, ...]:
        """What the engine processes are doing; waits for none of them for long."""
        return await self._reports.gather(self.runtime.engines, self.runtime.links)

    async def metrics_text(self) -> bytes:
        """All metrics of the whole gateway as of now, in Prometheus' text format.

        Raises Unavailable when the other processes do not tell theirs.
        """
        reports = await self.engine_reports()
        others = await self.peers.counted()
        return text(added((self.counted(reports), *others)))

    def counted(self, engines: Sequence[EngineReport] = ()) -> Families:
        """What this process has counted; with what the engines say, where it is to be told."""
        self.write_books()
        at = now()
        self.metrics.in_flight.set(self.in_flight)
        self.metrics.buffered.set(self.buffered)
        self.metrics.available.clear()
        self.metrics.trials.paused.clear()
        for name, paused in self._paused():
            self.metrics.trials.paused.labels(name).set(paused)
        for name, backend in self.runtime.backends.items():
            model, _, place = name.partition(": ")
            self.metrics.available.labels(model, place).set(backend.breaker.is_available(at))
        self.metrics.engines.reports = engines
        try:
            return families(self.metrics.registry)
        finally:
            self.metrics.engines.reports = ()

    async def strands(self, window: Window, at: float) -> tuple[BackendSeries, ...]:
        """The whole gateway's traffic by model and backend as of `at`, Unix seconds.

        Raises Unavailable when the other processes do not tell theirs.
        """
        others = await self.peers.strands(window, at)
        return merged((self.seen(window, at), *others)) if others else self.seen(window, at)

    def uncounted(self) -> bool:
        """Whether anything has happened since this was asked before."""
        self.write_books()
        booked, self._booked = self._booked, 0
        return booked > 0

    def seen(self, window: Window, at: float) -> tuple[BackendSeries, ...]:
        """This process's traffic."""
        self.write_books()
        return self.series.strands(window, at)

    async def recent(self, limit: int, request_id: str = "") -> list[RecentRequest]:
        """The last requests of the whole gateway, the newest first, or those of this id.

        Raises Unavailable when the other processes do not tell theirs.
        """
        others = await self.peers.recent(limit, request_id)
        everyone = chain(self.kept(limit, request_id), *others)
        return sorted(everyone, key=lambda one: one.line.time, reverse=True)[:limit]

    def kept(self, limit: int, request_id: str = "") -> list[RecentRequest]:
        """This process's."""
        self.write_books()
        return self.decisions.recent(limit, request_id)

    async def past(self) -> ExperimentHistory:
        """How experiments went.

        Raises Unavailable when the process that leads does not tell.
        """
        return await self.peers.past() if self.minding is None else self.minding.history.latest

    def _paused(self) -> Iterator[tuple[str, bool]]:
        for experiment in self.runtime.config.experiments:
            standing = self.runtime.experiments.status(fingerprint(experiment))
            yield experiment.name, standing.paused

    def book(self, record: RequestRecord, status: int, ended: float, prices: Prices) -> None:
        """Note what became of a request: once, however it ended.

        prices: of the generation that it began with: a reload may have removed its provider.

        The line and the metrics are made of many notes at a time, which keeps their code and
        data in the processor's caches: a sixth of the cost of making each at once.
        """
        self._notes.append((record, status, ended, prices))
        if len(self._notes) >= _BATCH:
            self.write_books()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_BOOK_S, self.write_books)

    def write_books(self) -> None:
        """Turn the notes so far into access lines and metrics."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        notes, self._notes = self._notes, []
        if not notes:
            return
        offset = time.time() - now()
        lines = [
            access_line(record, status, ended, offset, prices)
            for record, status, ended, prices in notes
        ]
        records = [note[0] for note in notes]
        several: list[AttemptRow] = []
        self.metrics.book(lines)
        for note, line in zip(notes, lines, strict=True):
            if len(line.attempts) > 1:
                rows = list(attempts_of(note[0], line.time, note[3]))
                self.metrics.spend_all(line, rows)
                several += rows
        self._booked += len(lines)
        self.series.add(lines)
        self.decisions.add(map(_decision, records, lines))
        if self.recorder is None:
            self.access_log.add(lines)
        else:
            told = as_json(lines)
            self.access_log.add(lines, told)
            self.recorder.add(request_batch(records, told, several))

    def _book_mirrored(self, line: MirrorLogEntry, row: AttemptRow | None) -> None:
        self.metrics.mirrors.book(line)
        if row is not None:
            place = line.route, line.pattern or line.mirror
            self.metrics.spend(place, row.role, row)
        self.access_log.add((line,))
        if self.recorder is not None and row is not None:
            self.recorder.add(row)


def _decision(record: RequestRecord, line: AccessLine) -> RecentRequest:
    return RecentRequest(
        line=line,
        rule=record.rule,
        candidates=record.candidates,
        ruled_out=record.ruled_out,
        refused=record.refusal[:MAX_MESSAGE_CHARS],
        excluded=record.participation.exclusion,
    )
