"""The whole gateway in one process, which leads and serves."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from gateway.config.model import Config
from gateway.processes.engines import EngineHouse
from gateway.processes.reload import Reload
from gateway.processes.serving import Serving
from gateway.processes.signals import on_reload, on_stop
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.decisions import Decision
from gateway.telemetry.families import Families, families
from gateway.telemetry.process_metrics import ProcessMetrics
from gateway.telemetry.series import Strand, Window


class Counting:
    """What this process counts as the one that leads, as if of a peer."""

    def __init__(self, metrics: ProcessMetrics) -> None:
        self._metrics = metrics

    async def counted(self) -> Sequence[Families]:
        return (families(self._metrics.registry),)

    async def strands(self, window: Window, at: float) -> Sequence[tuple[Strand, ...]]:
        return ()

    async def recent(self, limit: int, request_id: str) -> Sequence[list[Decision]]:
        return ()


async def alone(
    config: Config,
    *,
    source: Path,
    read: Callable[[], Config],
    listener: socket.socket,
    run_dir: Path,
    access_log: AccessLog,
) -> None:
    """Serve until SIGTERM or SIGINT; returns when everything is closed."""
    engines = EngineHouse(config, run_dir)
    serving = Serving(config, run_dir=run_dir, engines=engines.processes, access_log=access_log)
    metrics = ProcessMetrics()
    metrics.workers.set(1)

    serving.gateway.peers = Counting(metrics)
    reload = Reload(
        config,
        source=source,
        read=read,
        engines=engines,
        targets=lambda: (serving,),
        metrics=metrics,
    )
    on_stop(serving.drain, serving.quit)
    on_reload(reload.reload)
    watching = asyncio.create_task(reload.watch()) if config.server.reload == "auto" else None
    engines.start()
    try:
        await serving.run(listener)
    finally:
        if watching is not None:
            watching.cancel()
        await reload.close()
        await engines.close()
