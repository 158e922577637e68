"""The leader of several workers: it serves no requests and owns what exists once."""

import asyncio
from functools import partial

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.backends.engines.process.process import EngineProcess
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.fleet.listening.predecessor import Predecessor
from strowger_gateway.gateway.fleet.listening.systemd import notify
from strowger_gateway.gateway.fleet.processes.closing import close_all
from strowger_gateway.gateway.fleet.processes.engine_addresses import found_engines
from strowger_gateway.gateway.fleet.processes.engine_pool import EnginePool
from strowger_gateway.gateway.fleet.processes.file_watching import watching
from strowger_gateway.gateway.fleet.processes.launch import Launch
from strowger_gateway.gateway.fleet.processes.reload import Reload
from strowger_gateway.gateway.fleet.processes.worker_pool import WorkerPool
from strowger_gateway.gateway.observability.telemetry.own_process import OwnProcess
from strowger_gateway.gateway.platform.background import count_unhandled


async def run_leader(config: Config, launch: Launch) -> None:
    """Run until SIGTERM or SIGINT; return when all have exited. Raises CodeChanged."""
    run_dir, records, metrics = launch.run_dir, launch.records, launch.metrics()
    config, addresses = await found_engines(config)
    metrics.registry.register(OwnProcess("leader"))
    count_unhandled(crashed := metrics.internal_errors.count)
    state = launch.leader_state(config, lambda: reload.config, metrics, alone=False)
    parts = LeaderParts(PARTS, state)
    await parts.prepare(config)
    pool = WorkerPool(launch.listener, run_dir, metrics, parts=parts)
    engines = EnginePool(config, run_dir, made=partial(_follow, pool), until=pool.serving)
    reload = Reload(
        config,
        source=launch.source,
        read=launch.read,
        engines=engines,
        targets=pool.targets,
        metrics=metrics,
        hold_starts=pool.starts.hold,
        audit=records.audit,
        parts=parts,
    )
    hand_over = launch.follow_signals(
        reload, parts, drain=pool.drain, stop_now=pool.stop_now, counted=pool.counted
    )
    await parts.start()
    pool.starts.waits, pool.starts.surfaces = launch.predecessor is not None, launch.surfaces
    pool.start(
        config.server.workers,
        lambda: (reload.config, tuple(engines.processes.values()), reload.rejected),
    )
    beside = [
        records.importing(pool.serving, pool.on_import_problem, launch.freed),
        asyncio.create_task(_opened(pool, engines, parts, launch.predecessor)),
        *watching(reload, addresses, parts, crashed),
    ]
    engines.start()
    try:
        await pool.ended()
    finally:
        groups = (reload,), (pool,), (parts,), (engines,)
        await close_all(beside, launch.ends(hand_over), *groups)


async def _opened(
    pool: WorkerPool, engines: EnginePool, parts: LeaderParts, predecessor: Predecessor | None
) -> None:
    """Report when the workers serve; before that, take over from another gateway, if there is one.

    The workers wait for that, and it for them.
    """

    async def warm() -> bool:
        await pool.serving()
        return await engines.warm()

    if predecessor is not None:
        begin = (warm, parts.carry, pool.open, pool.stop_now)
        if not await predecessor.take_over(*begin):
            return
    await pool.serving()
    notify("READY=1")


def _follow(pool: WorkerPool, engine: EngineProcess) -> None:
    """Report each new status of an engine to the workers."""
    engine.watch(lambda _: pool.send_engine_update(engine))
