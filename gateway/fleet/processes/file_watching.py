"""What runs in the leader from the start to the end: watches of files and engines, and parts."""

import asyncio
from functools import partial

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts
from strowger_gateway.gateway.fleet.processes.engine_addresses import EngineAddresses
from strowger_gateway.gateway.fleet.processes.reload import Reload
from strowger_gateway.gateway.platform.background import OnCrash, keep_running


def watching(
    reload: Reload, addresses: EngineAddresses, parts: LeaderParts, crashed: OnCrash
) -> list[asyncio.Task[None]]:
    """Reload when the configuration changes, if it wants that, and run what parts have to run.

    Use the engines of other machines as they come and go.
    """
    addresses.attach(reload)
    works = [("engine discovery", partial(addresses.follow, reload)), *parts.works()]
    if reload.config.server.reload == "auto":
        works.append(("file watcher", reload.watch))
    return [asyncio.create_task(keep_running(name, work, crashed)) for name, work in works]
