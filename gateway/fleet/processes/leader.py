"""The leader of several workers: it serves no requests and owns what exists once."""

import asyncio
from functools import partial

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.backends.engines.process.process import EngineProcess
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.coordination.probe_locks import PROBES, FileLeases
from strowger_gateway.gateway.coordination.setup import (
    gateway_sync_running,
    transport_of,
)
from strowger_gateway.gateway.experiments.harm_limit_metrics import HarmLimitCollector
from strowger_gateway.gateway.fleet.listening.predecessor import Predecessor
from strowger_gateway.gateway.fleet.listening.systemd import notify
from strowger_gateway.gateway.fleet.processes.closing import close_all
from strowger_gateway.gateway.fleet.processes.engine_addresses import found_engines
from strowger_gateway.gateway.fleet.processes.engine_pool import EnginePool
from strowger_gateway.gateway.fleet.processes.experiment_jobs import experiment_jobs_for
from strowger_gateway.gateway.fleet.processes.file_watching import watching
from strowger_gateway.gateway.fleet.processes.launch import Launch
from strowger_gateway.gateway.fleet.processes.reload import Reload
from strowger_gateway.gateway.fleet.processes.replica_watch import ReplicaWatch
from strowger_gateway.gateway.fleet.processes.worker_pool import WorkerPool
from strowger_gateway.gateway.governance.issued_keys.leader_side import KeysLeader
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from strowger_gateway.gateway.platform.background import count_unhandled


async def run_leader(config: Config, launch: Launch) -> None:
    """Run until SIGTERM or SIGINT; return when all have exited. Raises CodeChanged."""
    run_dir, records, tls = launch.run_dir, launch.records, launch.tls
    config, addresses = await found_engines(config)
    transport, metrics = transport_of(config), ProcessMetrics()
    count_unhandled(crashed := metrics.internal_errors.count)
    jobs = experiment_jobs_for(
        records.store, lambda: reload.config, records.audit, crashed, launch.freed
    )
    harm = HarmLimitCollector(jobs.monitor)
    replicas = await ReplicaWatch.of(config, metrics)
    for collector in (*records.metrics, harm, tls):
        metrics.registry.register(collector)
    history = partial(getattr, jobs.history, "latest")
    state = launch.leader_state(config, lambda: reload.config, metrics, alone=False)
    parts = LeaderParts(PARTS, state)
    await parts.prepare(config)
    pool = WorkerPool(
        launch.listener,
        run_dir,
        metrics,
        parts=parts,
        history=history,
        tls=tls,
        replicas=replicas,
    )
    engines = EnginePool(config, run_dir, made=partial(_follow, pool), until=pool.serving)
    reload = Reload(
        config,
        source=launch.source,
        read=launch.read,
        engines=engines,
        targets=pool.targets,
        metrics=metrics,
        hold_starts=pool.hold_worker_starts,
        audit=records.audit,
        replicas=replicas,
        parts=parts,
    )
    hand_over = launch.follow_signals(
        reload,
        drain=pool.drain,
        stop_now=pool.stop_now,
        jobs=jobs,
        parts=parts,
        counted=pool.counted,
    )
    await parts.start()
    pool.waits, pool.surfaces = launch.predecessor is not None, launch.surfaces
    pool.start(
        config.server.workers,
        lambda: (reload.config, tuple(engines.processes.values()), reload.rejected),
    )
    beside = [records.importing(pool.serving, pool.on_import_problem, launch.freed)]
    beside += _opening(pool, engines, parts, launch.predecessor)
    beside += watching(reload, tls, addresses, replicas, parts, crashed)
    engines.start()
    jobs.start()
    keys, leases = parts.side(KeysLeader), partial(FileLeases, run_dir / PROBES)
    try:
        async with gateway_sync_running(
            transport, pool.hub, leases, lambda: reload.config, metrics.registry, crashed, keys.sync
        ):
            await pool.ended()
    finally:
        groups = (jobs,), (reload,), (pool,), (replicas, parts), (engines,)
        await close_all(beside, launch.ends(hand_over), *groups)


def _opening(
    pool: WorkerPool, engines: EnginePool, parts: LeaderParts, predecessor: Predecessor | None
) -> list[asyncio.Task[None]]:
    """Report when the workers serve; before that, take over from another gateway, if there is one.

    The workers wait for that, and it for them.
    """

    async def opened() -> None:
        begin = (warm, parts.carry, pool.open, pool.stop_now)
        if predecessor is not None and not await predecessor.take_over(*begin):
            return
        await pool.serving()
        notify("READY=1")

    async def warm() -> bool:
        await pool.serving()
        return await engines.warm()

    return [asyncio.create_task(opened())]


def _follow(pool: WorkerPool, engine: EngineProcess) -> None:
    """Report each new status of an engine to the workers."""
    engine.watch(lambda _: pool.send_engine_update(engine))
