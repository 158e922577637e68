"""The whole gateway in one process, which is leader and worker at once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

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
from strowger_gateway.gateway.governance.budgets.lease_leader import BudgetLeaseLeader
from strowger_gateway.gateway.governance.budgets.lease_worker import BudgetLeaseWorker
from strowger_gateway.gateway.governance.budgets.setup import stored_budgets
from strowger_gateway.gateway.governance.issued_keys.metrics import IssuedKeyCollector
from strowger_gateway.gateway.governance.issued_keys.rules_in_force import RulesInForce
from strowger_gateway.gateway.governance.issued_keys.sync import KeySync, latest_keys
from strowger_gateway.gateway.governance.limits.lease_worker import LimitLeaseWorker
from strowger_gateway.gateway.governance.limits.ledger import Account
from strowger_gateway.gateway.governance.limits.metrics import LimitUseCollector
from strowger_gateway.gateway.governance.limits.over_gateways.setup import shared_limits
from strowger_gateway.gateway.governance.limits.standing import LimitPlace, LimitStanding
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import (
    MetricFamilies,
    snapshot,
)
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from strowger_gateway.gateway.platform.background import OnCrash, count_unhandled, keep_running
from strowger_gateway.gateway.server.tls.watch import TlsWatch
from strowger_gateway.gateway.surfaces.late_module import import_translations

if TYPE_CHECKING:
    from strowger_gateway.gateway.governance.limits.over_gateways.shared_limits import SharedLimits


class LeaderCounters(NoPeers):
    """The leader's counters of this process, presented as a peer's."""

    def __init__(self, metrics: ProcessMetrics, limits: "SharedLimits | None") -> None:
        self._metrics = metrics
        self._limits = limits

    async def counted(self) -> Sequence[MetricFamilies]:
        return (snapshot(self._metrics.registry),)

    async def limit_standings(
        self, places: Sequence[LimitPlace]
    ) -> tuple[LimitStanding, ...] | None:
        if self._limits is None:
            return None
        # A client that leaves must not break off a call that others wait behind.
        return await asyncio.shield(asyncio.ensure_future(self._limits.standings(places)))


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
    keys = KeySync(records.store.issued_keys, lambda: reload.config)
    _connect(serving, tls, replicas, keys)
    harm, issued = HarmLimitCollector(jobs.monitor), IssuedKeyCollector(keys)
    for collector in (*records.metrics, harm, issued, tls):
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
    rules = RulesInForce(lambda: reload.config, partial(latest_keys, keys))
    limits = shared_limits(config, rules.limits)
    lent, budgets = stored_budgets(rules.budgets, lambda: reload.config, records, metrics.registry)
    hand_over = launch.follow_signals(
        reload,
        drain=serving.drain,
        stop_now=serving.stop_now,
        limits=serving.gateway.limits if limits is None else limits,
        jobs=jobs,
        parts=parts,
        counted=lambda: (serving.gateway.counted(),),
    )
    await asyncio.gather(keys.start(crashed), budgets.start(crashed), parts.start())
    gate, opening = _opening(serving, engines, parts, launch.predecessor, shared=limits is not None)
    beside = [records.importing(serving.accepting, serving.on_import_problem, launch.freed)]
    beside += [opening]
    beside += _spending(lent, serving, crashed)
    beside += _limiting(limits, serving, metrics, crashed)
    beside += watching(reload, tls, addresses, replicas, parts, crashed)
    engines.start()
    try:
        async with _synchronised(transport, serving, reload, metrics, keys):
            await serving.run(*launch.listener.sockets, gate=gate)
    finally:
        groups = (reload,), (keys, budgets, replicas, parts), (engines,)
        await close_all(beside, launch.ends(hand_over), *groups)


def _opening(
    serving: Server,
    engines: EnginePool,
    parts: LeaderParts,
    predecessor: Predecessor | None,
    *,
    shared: bool,
) -> tuple[asyncio.Event, asyncio.Task[None]]:
    """Return what opens the listening sockets, and the task that reports when they are open.

    Before that, the task takes over from another gateway, if there is one. shared: Redis counts
    what is used of limits.
    """
    gate, limits = asyncio.Event(), serving.gateway.limits

    async def opened() -> None:
        if predecessor is not None:
            await asyncio.to_thread(import_translations, predecessor.surfaces)
        begin = (engines.warm, account, parts.carry, gate.set, serving.stop_now)
        if predecessor is not None and not await predecessor.take_over(*begin):
            return
        await serving.accepting()
        notify("READY=1")

    def account(limit: str, subject: str) -> Account | None:
        return None if shared else limits.account(limit, subject)

    if predecessor is None:
        gate.set()
    return gate, asyncio.create_task(opened())


def _connect(serving: Server, tls: TlsWatch, replicas: ReplicaWatch, keys: KeySync) -> None:
    """Send what this process finds as the leader to itself as the worker."""
    tls.send, keys.send = serving.use_tls, serving.use_keys
    replicas.send_to(serving.use_replicas, serving.use_readings)
    serving.on_keys = partial(keys.on_message, 0)


def _spending(
    leader: BudgetLeaseLeader, serving: Server, crashed: OnCrash
) -> list[asyncio.Task[None]]:
    """Lease from the budgets of this gateway, until the tasks are cancelled."""
    gateway = serving.gateway
    leases = BudgetLeaseWorker(gateway.budgets, partial(leader.on_message, 0), gateway.log.flush)
    leader.join(0, leases.on_message)
    return [asyncio.create_task(keep_running("budget reports", leases.report, crashed))]


def _limiting(
    limits: "SharedLimits | None", serving: Server, metrics: ProcessMetrics, crashed: OnCrash
) -> list[asyncio.Task[None]]:
    """Measure and show the limits; lease from all gateways' until the tasks are cancelled."""
    serving.gateway.peers = LeaderCounters(metrics, limits)
    accounts = serving.gateway.limits.accounts if limits is None else limits.accounts
    metrics.registry.register(LimitUseCollector(accounts))
    if limits is None:
        return []
    leases = LimitLeaseWorker(serving.gateway.limits, partial(limits.on_message, 0))
    limits.join(0, leases.on_message)
    works = (("limits over gateways", limits.run), ("lease reports", leases.report))
    return [asyncio.create_task(keep_running(name, work, crashed)) for name, work in works]


@asynccontextmanager
async def _synchronised(
    transport: GatewayTransport | None,
    serving: Server,
    reload: Reload,
    metrics: ProcessMetrics,
    keys: KeySync,
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
            transport, hub, blocks, lambda: reload.config, metrics.registry, crashed, keys
        ):
            yield
    finally:
        sending.cancel()
