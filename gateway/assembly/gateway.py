"""The state of one gateway process: the configuration generation in force, and what serves it."""

import random
from collections.abc import Sequence
from typing import TypeVar

from strowger_gateway.gateway.assembly.admission import Admission
from strowger_gateway.gateway.assembly.all_processes import AllProcesses
from strowger_gateway.gateway.assembly.generations import Generations
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.assembly.process_parts import (
    Link,
    NoLeader,
    ProcessParts,
    ProcessState,
)
from strowger_gateway.gateway.assembly.request_log import RequestLog
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.governance.access.key_shares import KeyShares
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from strowger_gateway.gateway.observability.telemetry.own_process import OwnProcess
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.server.asgi.cors import CorsHeaders
from strowger_gateway.gateway.server.asgi.large_bodies import LargeBodyQueue
from strowger_gateway.gateway.server.asgi.response import SseKeepAlive
from strowger_gateway.gateway.stages.stage import Stage
from strowger_gateway.gateway.storage.sql.rows import Recorder
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.gateway.surfaces.hot_route import HotRoute

T = TypeVar("T")


class Gateway:
    """One process's state.

    runtime: the generation in force, replaced as a whole; a request keeps the one it began with.
    generations: that one, and those with requests in flight.
    parts: the sides of all parts in this process; `side` returns one by its class.
    admission, shares: the requests in flight, and those of each API key. log: the ended ones.
    processes: what all processes have counted, and what operators are shown of this one.
    store: the database, if there is one; its calls run in threads.
    keepalive, cors, random: of all requests, over all generations.
    """

    def __init__(
        self,
        runtime: Runtime,
        access_log: AccessLog,
        *,
        recorder: Recorder | None = None,
        seed: int | None = None,
        store: SqlStore | None = None,
        link: Link | None = None,
        parts: Sequence[Part] = PARTS,
    ) -> None:
        """recorder: of usage and outcomes; `None` keeps no records.

        seed: of the draws that policies use; `None` takes the system's randomness.
        store: `None` keeps nothing. link: to the parts' sides in the leader; `None` without one.
        parts: all of the program.
        """
        server = runtime.config.server
        self.runtime = runtime
        self.log = RequestLog(access_log, recorder)
        self.store = None if store is None else StoreAccess(store)
        self.admission, self.shares = Admission(self.log), KeyShares(LargeBodyQueue())
        self.processes = AllProcesses(lambda: self.runtime, self.log, self.admission, self.shares)
        self.processes.status.worker = 0 if link is None else link.worker
        name = "gateway" if link is None or link.alone else f"worker {link.worker}"
        self.log.metrics.registry.register(OwnProcess(name))
        self.generations = Generations(runtime, self._begin, self.log.metrics.internal_errors.count)
        self.parts = ProcessParts(parts, self._state(store), NoLeader() if link is None else link)
        self.parts.build()
        self.keepalive = SseKeepAlive(server.sse_keepalive_s, server.commit_after_s)
        self.cors = CorsHeaders(server.cors.allow_origins)
        self.random = random.Random(seed)
        self.parts.follow(runtime)
        self.log.takers = self.parts.takers()

    def side(self, kind: type[T]) -> T:
        """Return the side of a part, by its class. Raises LookupError if there is none."""
        return self.parts.side(kind)

    def _state(self, store: SqlStore | None) -> ProcessState:
        log, shared = self.log, (self.admission, self.shares, self.generations, self)
        issued, experiments = self.runtime.access.issued, self.runtime.routing.experiments
        return ProcessState(
            config=lambda: self.runtime.config,
            registry=log.metrics.registry,
            crashed=log.metrics.internal_errors.count,
            recorder=log.recorder,
            store=store,
            access=self.store,
            own=(issued, experiments, log, log.budgets, log.attributor, *shared),
            flush=log.flush,
            stages_changed=self._stages_changed,
        )

    def _stages_changed(self) -> None:
        self.runtime.stages.clear()
        self.log.takers = self.parts.takers()

    def use_runtime(self, runtime: Runtime) -> None:
        """Begin requests with this generation of another configuration from now on."""
        server = runtime.config.server
        self.generations.replace(runtime)
        self.keepalive.configure(server.sse_keepalive_s, server.commit_after_s)
        self.cors = CorsHeaders(server.cors.allow_origins)

    def _begin(self, runtime: Runtime) -> None:
        self.log.flush()
        self.runtime = runtime
        self.parts.use(runtime.config)
        self.parts.follow(runtime)
        self.log.takers = self.parts.takers()

    def stages(self, runtime: Runtime, at: HotRoute) -> Sequence[Stage]:
        """Return the stages that the parts bring to a route's requests, in their order."""
        return self.parts.stages(runtime, runtime.prepared, at)

    def close(self) -> None:
        """Everything is recorded: the store gets no more calls."""
        if self.store is not None:
            self.store.close()

    async def finished(self) -> None:
        """After `admission.refuse`: wait until every request and every copy has ended."""
        await self.admission.idle.wait()
        await self.parts.idle()
