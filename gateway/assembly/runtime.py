"""One configuration generation, live: who may come in, its backends, and what parts have of it."""

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path

from strowger_gateway.gateway.assembly.access import Access
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.assembly.routing import Routing
from strowger_gateway.gateway.assembly.wiring.engine_processes import engine_processes
from strowger_gateway.gateway.backends.discovery.discovered import NOTHING_DISCOVERED, Discovered
from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.backends.upstream.base import Upstream
from strowger_gateway.gateway.backends.upstream.key_pool.pool import KeyPool
from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from strowger_gateway.gateway.config.adapter_names import LOCAL
from strowger_gateway.gateway.config.parts.named import named
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentRouter
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.prices import Prices
from strowger_gateway.gateway.routing.planning.route import Backend, RouteTable
from strowger_gateway.gateway.stages.request_part import Closing, Prepared, RequestPart
from strowger_gateway.gateway.stages.stage import RouteStages
from strowger_gateway.schemas.errors import InvalidConfig


class Runtime:
    """One generation of the configuration. Build it, `start` it, `close` it.

    access: who may come in. routing: its backends with their replicas.
    prepared: what parts have built for it, by their names.
    stages: of its requests, by route; put together when a route gets its first request.
    in_flight: requests that began with this generation and have not ended; work that outlives
               its request (a mirrored copy) counts as well.
    default_model: of routes that name none.
    """

    def __init__(
        self,
        config: Config,
        *,
        run_dir: Path,
        engines: Mapping[str, EngineView] | None = None,
        before: "Runtime | None" = None,
        discovered: Discovered = NOTHING_DISCOVERED,
        parts: Sequence[Part] = PARTS,
    ) -> None:
        """engines: by provider, if another object owns them; otherwise it creates its own.

        before: the previous generation. discovered: the addresses of replicas.
        Raises InvalidConfig and ValueError.
        """
        self.config = config
        self.in_flight = 0
        self.access = Access(config, None if before is None else before.access)
        self._own = engine_processes(config, run_dir) if engines is None else {}
        self.engines: Mapping[str, EngineView] = self._own if engines is None else engines
        known = None if before is None else before.routing
        self.routing = Routing(config, self.engines, discovered, known)
        self.default_model = _default_model(config)
        self._parts = parts
        self.prepared = self._prepare(before)
        self.stages: dict[str, RouteStages] = {}

    def with_replicas(self, discovered: Discovered) -> "Runtime":
        """The same generation with other replicas, for requests from now on.

        All else is shared with this one, whose running requests keep the replicas that they have.
        """
        new = copy(self)
        new.in_flight, new.stages = 0, {}
        new.routing = Routing(self.config, self.engines, discovered, self.routing)
        new.prepared = new._prepare(self)
        return new

    def _prepare(self, before: "Runtime | None") -> Mapping[str, Prepared]:
        """Return what parts have built for this generation. Raises InvalidConfig."""
        known: Mapping[str, Prepared] = {} if before is None else before.prepared
        problems: list[str] = []
        found: dict[str, Prepared] = {}
        for part in self._parts:
            if not isinstance(part, RequestPart):
                continue
            try:
                with named(part.name, "preparing a configuration"):
                    prepared = part.prepare(self, known.get(part.name))
            except InvalidConfig as exc:
                problems += exc.problems
            else:
                if prepared is not None:
                    found[part.name] = prepared
        if problems:
            raise InvalidConfig(tuple(problems))
        return found

    @property
    def table(self) -> RouteTable:
        return self.routing.routes.table

    @property
    def backends(self) -> Mapping[str, Backend]:
        return self.routing.routes.backends

    @property
    def experiment_routers(self) -> Mapping[str, ExperimentRouter]:
        return self.routing.routes.experiments

    @property
    def planner(self) -> Planner:
        return self.routing.planner

    @property
    def prices(self) -> Prices:
        return self.routing.prices

    @property
    def upstreams(self) -> Mapping[str, Upstream]:
        """By provider."""
        return self.routing.upstreams.by_provider

    @property
    def key_pools(self) -> Mapping[str, KeyPool]:
        """Of the providers with several keys."""
        return self.routing.upstreams.key_pools

    @property
    def links(self) -> Mapping[str, LocalUpstream]:
        """Those of engines."""
        return self.routing.upstreams.links

    @property
    def ready(self) -> bool:
        """Whether every local engine is warm."""
        return all(engine.ready for engine in self.engines.values())

    async def start(self) -> None:
        """Start the engines that it owns."""
        for engine in self._own.values():
            await engine.start()

    async def wait_ready(self) -> bool:
        """Wait until every engine that it owns is warm; false as soon as one has given up."""
        return all([await engine.wait_ready() for engine in self._own.values()])

    async def close(self) -> None:
        """Close everything at once, even with requests in flight."""
        self.retire()
        for shared in self.shared():
            await shared.aclose()
        await self.stop()

    async def stop(self) -> None:
        """Stop the engines that it owns."""
        for engine in self._own.values():
            await engine.stop()

    def divide_budgets(self, processes: int) -> None:
        """See Routing."""
        self.routing.divide_budgets(processes)

    def retire(self) -> None:
        """This generation gets no more requests."""
        self.routing.retire()

    def shared(self) -> tuple[Closing, ...]:
        """The resources that the generations before and after it may use as well."""
        parts = [one for part in self.prepared.values() for one in part.closing()]
        return (*self.routing.closing(), *self.access.closing(), *parts)


def _default_model(config: Config) -> str:
    """The model of routes that name none: the configured one, or the only one there is.

    With several models, the only one with a local engine; "" if that is ambiguous.
    """
    if config.server.default_model is not None:
        return config.server.default_model
    engines = {provider.name for provider in config.providers if provider.adapter == LOCAL}
    local = [
        model.name
        for model in config.models
        if any(ref.provider in engines for ref in model.backends)
    ]
    for names in (local, [model.name for model in config.models]):
        if len(names) == 1 and not names[0].endswith("*"):
            return names[0]
    return ""
