"""The process that leads several workers: it serves nobody, and owns what is there once."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gateway.background import count_unhandled, kept
from gateway.config.schema import Config
from gateway.coordination.probe_locks import PROBES, Leases
from gateway.coordination.setup import among_replicas, link_of
from gateway.engine_process.process import EngineProcess
from gateway.processes.engine_pool import EngineHouse
from gateway.processes.experiment_jobs import minding_of
from gateway.processes.reload import Reload
from gateway.processes.signals import on_reload, on_stop
from gateway.processes.worker_pool import Crew
from gateway.recording.setup import Records
from gateway.telemetry.experiment_metrics import JudgeCollector
from gateway.telemetry.process_metrics import ProcessMetrics


async def lead(
    config: Config,
    *,
    source: Path,
    read: Callable[[], Config],
    listener: socket.socket,
    run_dir: Path,
    records: Records,
) -> None:
    """Until SIGTERM or SIGINT; returns when every worker and engine has ended."""
    link = link_of(config)
    metrics = ProcessMetrics()
    crashed = metrics.internal_errors.count
    count_unhandled(crashed)
    minding = minding_of(records.store, lambda: reload.config, crashed)
    for told in (records.metrics, JudgeCollector(minding.judge)):
        metrics.registry.register(told)
    crew = Crew(listener, run_dir, metrics, past=lambda: minding.history.past)

    def owned(engine: EngineProcess) -> None:
        engine.watch(lambda _: crew.tell_engine(engine))

    engines = EngineHouse(config, run_dir, made=owned, until=crew.serving)
    reload = Reload(
        config,
        source=source,
        read=read,
        engines=engines,
        targets=crew.targets,
        metrics=metrics,
        still=crew.no_birth,
    )
    on_stop(crew.drain, crew.leave)
    on_reload(reload.reload)
    crew.start(
        config.server.workers,
        lambda: (reload.config, tuple(engines.processes.values()), reload.refused),
    )
    watching = None
    if config.server.reload == "auto":
        watching = asyncio.create_task(kept("file watcher", reload.watch, crashed))
    engines.start()
    minding.start()
    leases = partial(Leases, run_dir / PROBES)
    try:
        async with among_replicas(
            link, crew.hub, leases, lambda: reload.config, metrics.registry, crashed
        ):
            await crew.ended()
    finally:
        if watching is not None:
            watching.cancel()
        await minding.close()
        await reload.close()
        await crew.close()
        await engines.close()
