"""The whole gateway in one process, which is leader and worker at once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.assembly.peers import NoPeers
from strowger_gateway.gateway.assembly.process_parts import SameProcess
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.coordination.gateway_transport import GatewayTransport
from strowger_gateway.gateway.coordination.probe_locks import LocalLeases
from strowger_gateway.gateway.coordination.setup import (
    gateway_sync_running,
    transport_of,
)
from strowger_gateway.gateway.coordination.state_hub import StateHub
from strowger_gateway.gateway.coordination.state_sharing import StateSharing
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
from strowger_gateway.gateway.fleet.processes.server import Server
from strowger_gateway.gateway.governance.issued_keys.leader_side import KeysLeader
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import (
    MetricFamilies,
    snapshot,
)
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from strowger_gateway.gateway.platform.background import count_unhandled, keep_running
from strowger_gateway.gateway.server.tls.watch import TlsWatch
from strowger_gateway.gateway.surfaces.late_module import import_translations


class LeaderCounters(NoPeers):
    """The leader's counters of this process, presented as a peer's."""

    def __init__(self, metrics: ProcessMetrics) -> None:
        self._metrics = metrics

    async def counted(self) -> Sequence[MetricFamilies]:
        return (snapshot(self._metrics.registry),)


async def run_single_process(config: Config, launch: Launch, access_log: AccessLog) -> None:
    """Serve until SIGTERM or SIGINT; return when everything is closed."""
    run_dir, records, tls = launch.run_dir, launch.records, launch.tls
    config, addresses = await found_engines(config)
    transport, engines = transport_of(config), EnginePool(config, run_dir)
    metrics = ProcessMetrics()
    metrics.workers.set(1)
    count_unhandled(crashed := metrics.internal_errors.count)
    replicas = await ReplicaWatch.of(config, metrics)
    state = launch.leader_state(config, lambda: reload.config, metrics, alone=True)
    parts = LeaderParts(PARTS, state)
    await parts.prepare(config)
    serving = Server(
        config,
        run_dir=run_dir,
        engines=engines.processes,
        access_log=access_log,
        tls=tls.files,
        discovered=replicas.latest,
        link=SameProcess(parts),
    )
    parts.joined(0, serving.gateway.parts.on_message)
    jobs = serving.gateway.experiment_jobs = experiment_jobs_for(
        records.store, lambda: reload.config, records.audit, crashed, launch.freed
    )
    serving.gateway.peers = LeaderCounters(metrics)
    _connect(serving, tls, replicas)
    harm = HarmLimitCollector(jobs.monitor)
    for collector in (*records.metrics, harm, tls):
        metrics.registry.register(collector)
    reload = Reload(
        config,
        source=launch.source,
        read=launch.read,
        engines=engines,
        targets=lambda: (serving,),
        metrics=metrics,
        audit=records.audit,
        replicas=replicas,
        parts=parts,
    )
    hand_over = launch.follow_signals(
        reload,
        drain=serving.drain,
        stop_now=serving.stop_now,
        jobs=jobs,
        parts=parts,
        counted=lambda: (serving.gateway.counted(),),
    )
    await parts.start()
    gate, opening = _opening(serving, engines, parts, launch.predecessor)
    beside = [records.importing(serving.accepting, serving.on_import_problem, launch.freed)]
    beside += [opening]
    beside += watching(reload, tls, addresses, replicas, parts, crashed)
    engines.start()
    try:
        async with _synchronised(transport, serving, reload, metrics, parts.side(KeysLeader)):
            await serving.run(*launch.listener.sockets, gate=gate)
    finally:
        groups = (reload,), (replicas, parts), (engines,)
        await close_all(beside, launch.ends(hand_over), *groups)


def _opening(
    serving: Server,
    engines: EnginePool,
    parts: LeaderParts,
    predecessor: Predecessor | None,
) -> tuple[asyncio.Event, asyncio.Task[None]]:
    """Return what opens the listening sockets, and the task that reports when they are open.

    Before that, the task takes over from another gateway, if there is one.
    """
    gate = asyncio.Event()

    async def opened() -> None:
        if predecessor is not None:
            await asyncio.to_thread(import_translations, predecessor.surfaces)
        begin = (engines.warm, parts.carry, gate.set, serving.stop_now)
        if predecessor is not None and not await predecessor.take_over(*begin):
            return
        await serving.accepting()
        notify("READY=1")

    if predecessor is None:
        gate.set()
    return gate, asyncio.create_task(opened())


def _connect(serving: Server, tls: TlsWatch, replicas: ReplicaWatch) -> None:
    """Send what this process finds as the leader to itself as the worker."""
    tls.send = serving.use_tls
    replicas.send_to(serving.use_replicas, serving.use_readings)


@asynccontextmanager
async def _synchronised(
    transport: GatewayTransport | None,
    serving: Server,
    reload: Reload,
    metrics: ProcessMetrics,
    keys: KeysLeader,
) -> AsyncGenerator[None, None]:
    """Join this process to a hub as its only worker, if there are others to synchronise with."""
    if transport is None:
        yield
        return
    hub, holders = StateHub(), dict[str, LocalLeases]()
    sharing = StateSharing(serving.gateway, LocalLeases(holders), partial(hub.on_message, 0))
    serving.on_new_runtime = sharing.follow
    hub.join(0, sharing.on_message)
    crashed = metrics.internal_errors.count
    sending = asyncio.create_task(keep_running("load sharing", sharing.send_updates, crashed))
    try:
        blocks = partial(LocalLeases, holders)
        async with gateway_sync_running(
            transport, hub, blocks, lambda: reload.config, metrics.registry, crashed, keys.sync
        ):
            yield
    finally:
        sending.cancel()
