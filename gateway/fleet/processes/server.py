"""The serving part of one process: the HTTP server, its configurations, and the drain."""

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from strowger_gateway.gateway.assembly.client_connections import FilesCollector, limits_in_force
from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.process_parts import Link
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.backends.discovery.discovered import NOTHING_DISCOVERED, Discovered
from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.backends.gauges.readings import ReplicaReadings
from strowger_gateway.gateway.config.schema.config import Config, ServerConfig
from strowger_gateway.gateway.config.schema.responses import ResponsesConfig
from strowger_gateway.gateway.content.stored_responses.archive import ResponseArchive
from strowger_gateway.gateway.content.stored_responses.metrics import ResponseCollector
from strowger_gateway.gateway.content.stored_responses.seals import Seals
from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.fleet.listening.accept_queue import Mode
from strowger_gateway.gateway.fleet.processes.draining import Draining
from strowger_gateway.gateway.fleet.processes.reload_target import Proposal
from strowger_gateway.gateway.fleet.processes.runtime_generations import Generations
from strowger_gateway.gateway.governance.issued_keys.keys_in_effect import TICK_S
from strowger_gateway.gateway.http.app import build_app
from strowger_gateway.gateway.observability.recording.audit_recorder import AuditRecorder
from strowger_gateway.gateway.observability.recording.metrics import (
    AuditCollector,
    RecorderCollector,
)
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.setup import audit_recorder, open_spool
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from strowger_gateway.gateway.observability.telemetry.logs import set_level
from strowger_gateway.gateway.platform.background import keep_running
from strowger_gateway.gateway.platform.eventloop.metrics import TurnCollector
from strowger_gateway.gateway.routing.health_checks.checks import HealthChecks
from strowger_gateway.gateway.server.asgi.client_timeouts import SlowClientReaper
from strowger_gateway.gateway.server.http1.server import HttpServer
from strowger_gateway.gateway.server.tls.files import TlsFiles
from strowger_gateway.gateway.server.tls.handshakes import ListenerContext
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.errors import InvalidConfig

_log = logging.getLogger("strowger")

FLUSH_S = 3.0
"""Seconds in which the last spans and payloads are sent or written."""

REPEATS_S = 5.0
"""Interval between checks for repeated refusals whose minute has passed."""


class Server:
    """The gateway in this process: a Target of reloads. `run` serves until it has drained.

    name: for the log when this is the only serving process.
    on_new_runtime: called with each Runtime that takes effect.
    """

    def __init__(
        self,
        config: Config,
        *,
        run_dir: Path,
        engines: Mapping[str, EngineView],
        access_log: AccessLog,
        announces: bool = True,
        tls: TlsFiles | None = None,
        discovered: Discovered = NOTHING_DISCOVERED,
        link: Link | None = None,
    ) -> None:
        """announces: log changes of experiments, and check backends; true in one process only.

        tls: `None` serves cleartext. discovered: the addresses of replicas.
        link: to the parts' sides in the leader. Raises InvalidConfig.
        """
        first = Runtime(config, run_dir=run_dir, engines=engines, discovered=discovered)
        self._recorder = FileRecorder(open_spool(config))
        self._store = open_store(config.store.url)
        self.gateway = Gateway(
            first, access_log, recorder=self._recorder, store=self._store, link=link
        )
        access, registry = self.gateway.store, self.gateway.log.metrics.registry
        assert access is not None
        registry.register(RecorderCollector(self._recorder))
        self._experiments = self.gateway.experiments = ExperimentService(
            access,
            self._recorder,
            first.experiments,
            lambda: self.gateway.runtime.config.experiments,
            announces=announces,
            crashed=self.gateway.log.metrics.internal_errors.count,
        )
        self._archive = self.gateway.archive = self._response_archive()
        registry.register(ResponseCollector(self._archive))
        self.gateway.seals = Seals(self._responses, self._store.sealing_keys)
        self.gateway.sessions = self.gateway.admin_sessions(self._store.admin_sessions)
        self.gateway.audit_rows, self.gateway.payload_rows = self._store.audit, self._store.payloads
        self._audit = _recorded_audit(config, self.gateway)
        self.name = "this process"
        self._run_dir = run_dir
        self._discovered = discovered
        self._generations = Generations(first)
        self._prepared: tuple[int, Runtime] | None = None
        self.on_new_runtime: Callable[[Runtime], None] = _ignore
        self._tls = None if tls is None else ListenerContext(tls, registry)
        limits = limits_in_force(self._settings, self.gateway.shares)
        self._server = HttpServer(build_app(self.gateway), tls=self._tls, limits=limits)
        registry.register(TurnCollector(self._server.turn))
        self.draining = Draining(self.gateway, self._server, self._settings)
        connections = self._server.connections
        registry.register(FilesCollector(connections))
        self._checks = _health_checks(self.gateway) if announces else None
        self._patience = SlowClientReaper(connections, lambda: self._settings().client_timeout_s)

    def _settings(self) -> ServerConfig:
        return self.gateway.runtime.config.server

    def _response_archive(self) -> ResponseArchive:
        def spare() -> int:
            return self.gateway.runtime.config.store.min_free_bytes

        return ResponseArchive(self._store, self._store.stored_responses, self._responses, spare)

    def _responses(self) -> ResponsesConfig:
        return self.gateway.runtime.config.responses

    async def run(self, *listening: socket.socket, gate: asyncio.Event | None = None) -> None:
        """Serve until `drain` or `stop_now` completes; everything is closed on return.

        gate: connections are accepted when it is set.
        """
        crashed = self.gateway.log.metrics.internal_errors.count
        drain = partial(self.draining.run, listening)
        beside = [
            asyncio.create_task(keep_running("drain", drain, crashed)),
            asyncio.create_task(keep_running("slow client reaper", self._patience.watch, crashed)),
            asyncio.create_task(keep_running("response sweeper", self._archive.sweep, crashed)),
            asyncio.create_task(keep_running("issuers", self._follow_issuers, crashed)),
            asyncio.create_task(keep_running("audit log", self._count_repeats, crashed)),
        ]
        for name, work in self.gateway.parts.works():
            beside.append(asyncio.create_task(keep_running(name, work, crashed)))
        if self._checks is not None:
            checks = keep_running("health checks", self._checks.run, crashed)
            beside.append(asyncio.create_task(checks))
        await self.gateway.parts.start()
        self.gateway.sessions.start()
        _tune_garbage_collector()
        # The loop keeps a list of running async generators and closes those that are still open at
        # its end. The gateway's readers close theirs, and the list costs 1 % of a request.
        sys.set_asyncgen_hooks(firstiter=None)
        try:
            await self._server.serve(*listening, gate=gate)
        finally:
            for one in beside:
                one.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self.gateway.mirrors.cancel()
            await self._generations.close()
            self.gateway.log.flush()
            await asyncio.gather(
                self.gateway.close_tracing(FLUSH_S),
                self.gateway.close_payloads(FLUSH_S),
                self.gateway.close_cache(),
                self.gateway.parts.close(FLUSH_S),
            )
            await asyncio.to_thread(self._recorder.close)  # the disk may block; the loop must not
            if self._audit is not None:
                await asyncio.to_thread(self._audit.close)
            await self.gateway.sessions.close()
            self._archive.close()
            self._store.close()

    async def accepting(self) -> None:
        """Return when connections are accepted."""
        await self._server.listening.wait()

    def drain(self, mode: Mode = "refuse") -> None:
        """Report not ready while serving, then refuse requests, then close with the last stream.

        mode: of a hand-over, serve what is open until it ends; see Mode.
        """
        self.draining.begin(mode)

    def on_leader_lost(self) -> None:
        """The leader is gone: release the address immediately and exit after the last stream."""
        self.draining.begin("lost")

    def stop_now(self) -> None:
        """Stop without waiting for requests in flight."""
        self.draining.begin("refuse")
        self._server.stop(at_once=True)

    async def prepare(self, proposal: Proposal) -> tuple[str, ...]:
        """See Target.prepare."""
        try:
            await self.gateway.parts.ready(proposal.config)
            runtime = Runtime(
                proposal.config,
                run_dir=self._run_dir,
                engines=proposal.engines,
                before=self._generations.current,
                discovered=self._discovered,
            )
        except InvalidConfig as exc:
            return exc.problems
        except Exception as exc:  # noqa: BLE001  no file may stop the current configuration
            _log.exception("cannot build the configuration")
            return (f"cannot be built: {exc}",)
        await self._experiments.prepare(proposal.config.experiments)
        self._prepared = (proposal.number, runtime)
        return ()

    async def commit(self, number: int) -> None:
        """See Target.commit; takes effect immediately."""
        if self._prepared is None or self._prepared[0] != number:
            return
        runtime, self._prepared = self._prepared[1], None
        self._generations.replace(runtime)
        self.gateway.use_runtime(runtime)
        self.on_new_runtime(runtime)
        set_level(runtime.config.logging)
        self.use_replicas(self._discovered)  # those that changed after `prepare`

    def discard(self, number: int) -> None:
        """See Target.discard. The prepared Runtime was never used and holds no connection yet."""
        if self._prepared is not None and self._prepared[0] == number:
            self._prepared[1].retire()
            self._prepared = None

    async def wait_old_requests(self) -> None:
        await self._generations.wait_old_requests()

    def notify_config_rejected(self, *, rejected: bool) -> None:
        self.gateway.config_rejected = rejected

    def on_import_problem(self, problem: str) -> None:
        """Note why records are not imported now; "" if they are."""
        self.gateway.import_problem = problem

    def use_replicas(self, found: Discovered) -> None:
        """Send requests to these replicas from now on; those that run keep theirs."""
        self._discovered = found
        current = self._generations.current
        if current.discovered == found:
            return
        runtime = current.with_replicas(found)
        self._generations.replace(runtime)
        self.gateway.use_replicas(runtime)
        self.on_new_runtime(runtime)

    def use_readings(self, found: ReplicaReadings) -> None:
        """Note how busy the replicas say they are."""
        self._generations.current.use_readings(found)

    def use_tls(self, files: TlsFiles) -> None:
        """Use other certificates for new connections; the leader has proved that they work."""
        if self._tls is not None:
            self._tls.use(files)

    async def _follow_issuers(self) -> None:
        """Fetch the keys of identity providers when they are due, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            if (issuers := self.gateway.runtime.issuers) is not None:
                issuers.tick()

    async def _count_repeats(self) -> None:
        while self._audit is not None:
            await asyncio.sleep(REPEATS_S)
            self._audit.tick()


def _recorded_audit(config: Config, gateway: Gateway) -> AuditRecorder | None:
    """Record the audit events of this process, if the configuration wants that."""
    recorder = audit_recorder(config)
    if recorder is not None:
        gateway.audit = recorder
        gateway.log.metrics.registry.register(AuditCollector(recorder))
    return recorder


def _health_checks(gateway: Gateway) -> HealthChecks:
    """The checks of the backends in effect."""
    return HealthChecks(
        lambda: gateway.runtime.config,
        lambda: gateway.runtime.backends,
        gateway.watch,
        gateway.log.metrics.registry,
    )


def _ignore(message: object) -> None:
    """The default of `on_new_runtime`."""


def _tune_garbage_collector() -> None:
    """Exclude the objects made at start-up from garbage collection, and collect less often.

    A request makes about a hundred containers and no cycles, so the default threshold of 700
    would run the collector every few requests without effect.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
