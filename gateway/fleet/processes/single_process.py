"""The whole gateway in one process, which is leader and worker at once."""

import asyncio

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.assembly.peers import LeaderCounters
from strowger_gateway.gateway.assembly.process_parts import SameProcess
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.fleet.listening.predecessor import Predecessor
from strowger_gateway.gateway.fleet.listening.systemd import notify
from strowger_gateway.gateway.fleet.processes.closing import close_all
from strowger_gateway.gateway.fleet.processes.engine_addresses import found_engines
from strowger_gateway.gateway.fleet.processes.engine_pool import EnginePool
from strowger_gateway.gateway.fleet.processes.file_watching import watching
from strowger_gateway.gateway.fleet.processes.launch import Launch
from strowger_gateway.gateway.fleet.processes.reload import Reload
from strowger_gateway.gateway.fleet.processes.server import Server
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from strowger_gateway.gateway.platform.background import count_unhandled
from strowger_gateway.gateway.surfaces.late_module import import_translations


async def run_single_process(config: Config, launch: Launch, access_log: AccessLog) -> None:
    """Serve until SIGTERM or SIGINT; return when everything is closed."""
    run_dir, records, metrics = launch.run_dir, launch.records, launch.metrics()
    config, addresses = await found_engines(config)
    engines = EnginePool(config, run_dir)
    metrics.workers.set(1)
    count_unhandled(crashed := metrics.internal_errors.count)
    state = launch.leader_state(config, lambda: reload.config, metrics, alone=True)
    parts = LeaderParts(PARTS, state)
    await parts.prepare(config)
    serving = Server(
        config,
        run_dir=run_dir,
        engines=engines.processes,
        access_log=access_log,
        link=SameProcess(parts),
    )
    serving.gateway.processes.peers = LeaderCounters(metrics)
    parts.joined(0, serving.gateway.parts.on_message)
    reload = Reload(
        config,
        source=launch.source,
        read=launch.read,
        engines=engines,
        targets=lambda: (serving.proposals,),
        metrics=metrics,
        audit=records.audit,
        parts=parts,
    )
    hand_over = launch.follow_signals(
        reload,
        parts,
        drain=serving.drain,
        stop_now=serving.stop_now,
        counted=lambda: (serving.gateway.processes.counted(),),
    )
    await parts.start()
    gate = asyncio.Event()
    beside = [
        records.importing(serving.accepting, serving.on_import_problem, launch.freed),
        asyncio.create_task(_opened(serving, gate, engines, parts, launch.predecessor)),
        *watching(reload, addresses, parts, crashed),
    ]
    engines.start()
    try:
        await serving.run(*launch.listener.sockets, gate=gate)
    finally:
        await close_all(beside, launch.ends(hand_over), (reload,), (parts,), (engines,))


async def _opened(
    serving: Server,
    gate: asyncio.Event,
    engines: EnginePool,
    parts: LeaderParts,
    predecessor: Predecessor | None,
) -> None:
    """Open the listening sockets, and report when they are open.

    Before that, take over from another gateway, if there is one.
    """
    if predecessor is None:
        gate.set()
    else:
        await asyncio.to_thread(import_translations, predecessor.surfaces)
        begin = (engines.warm, parts.carry, gate.set, serving.stop_now)
        if not await predecessor.take_over(*begin):
            return
    await serving.accepting()
    notify("READY=1")
