"""The serving part of one process: the HTTP server, its configurations, and the drain."""

import asyncio
import socket
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from strowger_gateway.gateway.assembly.client_connections import FilesCollector, limits_in_force
from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.process_parts import Link
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.backends.replicas.part import replicas_at_start
from strowger_gateway.gateway.config.schema.config import Config, ServerConfig
from strowger_gateway.gateway.fleet.listening.accept_queue import Mode
from strowger_gateway.gateway.fleet.processes.draining import Draining
from strowger_gateway.gateway.fleet.processes.proposals import Proposals
from strowger_gateway.gateway.fleet.processes.records import ProcessRecords
from strowger_gateway.gateway.http.app import build_app
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from strowger_gateway.gateway.platform.background import keep_running
from strowger_gateway.gateway.platform.eventloop.metrics import TurnCollector
from strowger_gateway.gateway.platform.garbage_collector import tune_garbage_collector
from strowger_gateway.gateway.server.asgi.client_timeouts import SlowClientReaper
from strowger_gateway.gateway.server.http1.server import HttpServer
from strowger_gateway.gateway.server.tls.process_side import TlsSide

FLUSH_S = 3.0
"""Seconds in which the last spans and payloads are sent or written."""


class Server:
    """The gateway in this process: `run` serves until it has drained. proposals: of reloads."""

    def __init__(
        self,
        config: Config,
        *,
        run_dir: Path,
        engines: Mapping[str, EngineView],
        access_log: AccessLog,
        link: Link,
    ) -> None:
        """link: to the parts' sides in the leader. Raises InvalidConfig."""
        found = replicas_at_start(link.first)
        first = Runtime(config, run_dir=run_dir, engines=engines, discovered=found)
        self._records = ProcessRecords(config)
        self.gateway = Gateway(
            first,
            access_log,
            recorder=self._records.recorder,
            store=self._records.store,
            link=link,
        )
        self.proposals = Proposals(self.gateway, run_dir)
        self._server = HttpServer(
            build_app(self.gateway),
            tls=self.gateway.side(TlsSide).context,
            limits=limits_in_force(self._settings, self.gateway.shares),
        )
        registry = self.gateway.log.metrics.registry
        self._records.measure(registry)
        registry.register(TurnCollector(self._server.turn))
        registry.register(FilesCollector(self._server.connections))
        self.draining = Draining(self.gateway, self._server, self._settings)

    def _settings(self) -> ServerConfig:
        return self.gateway.runtime.config.server

    async def run(self, *listening: socket.socket, gate: asyncio.Event | None = None) -> None:
        """Serve until `drain` or `stop_now` completes; everything is closed on return.

        gate: connections are accepted when it is set.
        """
        gateway, crashed = self.gateway, self.gateway.log.metrics.internal_errors.count
        patience = SlowClientReaper(
            self._server.connections, lambda: self._settings().client_timeout_s
        )
        works = (
            ("drain", partial(self.draining.run, listening)),
            ("slow client reaper", patience.watch),
            *gateway.parts.works(),
        )
        beside = [asyncio.create_task(keep_running(*work, crashed)) for work in works]
        tune_garbage_collector()
        # The loop keeps a list of running async generators and closes those that are still open at
        # its end. The gateway's readers close theirs, and the list costs 1 % of a request.
        sys.set_asyncgen_hooks(firstiter=None)
        try:
            await gateway.parts.start()
            await self._server.serve(*listening, gate=gate)
        finally:
            for one in beside:
                one.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await gateway.generations.close()
            gateway.log.flush()
            await gateway.parts.close(FLUSH_S)
            gateway.close()
            await self._records.close()

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

    def on_import_problem(self, problem: str) -> None:
        """Note why records are not imported now; "" if they are."""
        self.gateway.processes.status.import_problem = problem
