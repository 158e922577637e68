"""Watch what changes while the gateway runs: configuration, certificates, engines, replicas."""

import asyncio
from functools import partial

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts
from strowger_gateway.gateway.fleet.processes.engine_addresses import EngineAddresses
from strowger_gateway.gateway.fleet.processes.reload import Reload
from strowger_gateway.gateway.fleet.processes.replica_watch import ReplicaWatch
from strowger_gateway.gateway.platform.background import OnCrash, keep_running
from strowger_gateway.gateway.server.tls.watch import TlsWatch


def watching(
    reload: Reload,
    tls: TlsWatch,
    addresses: EngineAddresses,
    replicas: ReplicaWatch,
    parts: LeaderParts,
    crashed: OnCrash,
) -> list[asyncio.Task[None]]:
    """Reload when the configuration changes, if it wants that.

    Use renewed certificates, the engines of other machines as they come and go, and the replicas
    of backends with their gauges.
    """
    addresses.attach(reload)
    works = [
        ("certificate watcher", lambda: tls.run(lambda: reload.config.server.tls)),
        ("engine discovery", partial(addresses.follow, reload)),
        *replicas.works(lambda: reload.config),
        *parts.works(),
    ]
    if reload.config.server.reload == "auto":
        works.append(("file watcher", reload.watch))
    return [asyncio.create_task(keep_running(name, work, crashed)) for name, work in works]
