"""The backends of one generation with these replicas: upstreams, routes, and what plans on them."""

from collections.abc import Iterator, Mapping
from functools import partial

from strowger_gateway.gateway.assembly.wiring.models import models_of
from strowger_gateway.gateway.assembly.wiring.prices import prices_of
from strowger_gateway.gateway.assembly.wiring.routes import Routes, build_routes
from strowger_gateway.gateway.assembly.wiring.upstreams import Upstreams, build_upstreams
from strowger_gateway.gateway.backends.discovery.discovered import Discovered
from strowger_gateway.gateway.backends.engines.process.process import READY, EngineView
from strowger_gateway.gateway.backends.gauges.readings import ReplicaReadings
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentState
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.stages.request_part import Closing


class Routing:
    """prices, experiments: what routes are built with; the state of experiments is shared by all
    generations. discovered: the replicas.
    """

    def __init__(
        self,
        config: Config,
        engines: Mapping[str, EngineView],
        discovered: Discovered,
        before: "Routing | None",
    ) -> None:
        """before: of the previous generation, whose connections, credentials, breakers, loads and
        budgets are taken over for providers that have not changed. Raises InvalidConfig.
        """
        self.discovered = discovered
        self.prices = prices_of(config)
        self.experiments = ExperimentState() if before is None else before.experiments
        known = None if before is None else before.upstreams
        self.upstreams: Upstreams = build_upstreams(config, engines, known, discovered)
        self.routes: Routes = build_routes(
            config,
            self.upstreams,
            self.prices,
            models_of(config),
            self.experiments,
            None if before is None else before.routes,
            discovered,
        )
        self.planner = Planner(self.routes.table, self.routes.experiments)
        self._engines = engines
        self._watching = {name: partial(self._engine_changed, name) for name in engines}
        for name, listener in self._watching.items():
            engines[name].watch(listener)

    def use_readings(self, found: ReplicaReadings) -> None:
        """Note how busy replicas say they are, beyond what this gateway sends them."""
        for one in found.readings:
            replica = self.routes.replicas.get((one.provider, one.address))
            if replica is not None:
                busy = self.routes.busy_at(replica)
                reading = one.reading
                replica.note(None if reading is None else reading.waiting + reading.running, busy)

    def divide_budgets(self, processes: int) -> None:
        """Take this process's part of the budgets of retries and hedges, and of limits of keys.

        processes: all that serve, of all gateways.
        """
        routes = self.routes.table.routes.values()
        hedging = (route.hedging.budget for route in routes if route.hedging)
        for budget in (*self.upstreams.budgets.values(), *hedging):
            budget.processes = processes
        for pool in self.upstreams.key_pools.values():
            pool.processes = processes

    def retire(self) -> None:
        """Stop watching the engines, because this generation gets no more requests."""
        for name, listener in self._watching.items():
            self._engines[name].unwatch(listener)
        self._watching.clear()

    def closing(self) -> Iterator[Closing]:
        """Return what is closed with the last generation that uses it."""
        yield from self.upstreams.by_provider.values()
        yield from self.upstreams.replicas.values()
        if self.upstreams.fetcher is not None:
            yield self.upstreams.fetcher

    def _engine_changed(self, provider: str, status: str) -> None:
        """Reset the breakers of a restarted engine: the failures were the old process's."""
        if status == READY:
            upstream = self.upstreams.links[provider]
            upstream.on_engine_ready()
            at = now()
            for backend in self.routes.backends.values():
                if backend.upstream is upstream:
                    backend.breaker.reset(at)
