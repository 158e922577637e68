"""One configuration generation, live: keys, engines, upstreams and the planner over its routes."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.assembly.wiring.engine_processes import engine_processes
from strowger_gateway.gateway.assembly.wiring.models import models_of
from strowger_gateway.gateway.assembly.wiring.prices import prices_of
from strowger_gateway.gateway.assembly.wiring.routes import build_routes
from strowger_gateway.gateway.assembly.wiring.upstreams import build_upstreams
from strowger_gateway.gateway.backends.discovery.discovered import NOTHING_DISCOVERED, Discovered
from strowger_gateway.gateway.backends.engines.process.process import (
    READY,
    EngineView,
)
from strowger_gateway.gateway.backends.gauges.readings import ReplicaReadings
from strowger_gateway.gateway.config.adapter_names import LOCAL
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.access.auth import AdminKey, Keyring, MetricsAccess
from strowger_gateway.gateway.governance.access.client_address import ClientAddresses
from strowger_gateway.gateway.governance.identities.setup import known_issuers, token_callers
from strowger_gateway.gateway.governance.issued_keys.keys_in_effect import IssuedKeys
from strowger_gateway.gateway.governance.sessions.tokens import SessionTokens
from strowger_gateway.gateway.governance.sign_in.setup import sign_in_provider
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentState
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.server.asgi.cross_site import CrossSiteGuard
from strowger_gateway.gateway.stages.request_part import Closing, Prepared, RequestPart
from strowger_gateway.gateway.stages.stage import RouteStages
from strowger_gateway.schemas.errors import InvalidConfig


class Runtime:
    """One generation of the configuration. Build it, `start` it, `close` it.

    experiments, issued: their states and the issued keys, shared by all generations.
    prepared: what parts have built for it, by their names.
    stages: of its requests, by route; put together when a route gets its first request.
    in_flight: requests that began with this generation and have not ended; work that outlives
               its request (a mirrored copy) counts as well.
    discovered: the replicas that requests of this generation are sent to.
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

        before: the previous generation, whose connections, credentials, breakers, loads and
                budgets are taken over for providers that have not changed.
        discovered: the addresses of replicas. Raises InvalidConfig and ValueError.
        """
        self.config = config
        self.in_flight = 0
        self.experiments = before.experiments if before else ExperimentState()
        self.issued = before.issued if before else IssuedKeys()
        shown = config.logging.client_address
        self.clients = ClientAddresses(config.server.trusted_proxies, shown=shown)
        self.issuers = known_issuers(config.auth, before.issuers if before else None)
        self.keyring = Keyring(
            config.auth,
            config.teams,
            self.issued,
            self.clients,
            token_callers(self.issuers, config.teams, config.plans),
        )
        self.admin_key = AdminKey(config.auth)
        self.session_tokens = SessionTokens(config.auth)
        self.sign_in = sign_in_provider(config.auth, before.sign_in if before else None)
        self.metrics_access = MetricsAccess(config.auth, self.keyring)
        self.door = _door(config)
        self._own = engine_processes(config, run_dir) if engines is None else {}
        self.engines: Mapping[str, EngineView] = self._own if engines is None else engines
        self.prices = prices_of(config)
        self._models = models_of(config)
        self._route(discovered, before)
        self.default_model = _default_model(config)
        self._parts = parts
        self.prepared = self._prepare(before)
        self.stages: dict[str, RouteStages] = {}
        self._watch_engines()

    def with_replicas(self, discovered: Discovered) -> "Runtime":
        """The same generation with other replicas, for requests from now on.

        All else is shared with this one, whose running requests keep the replicas that they have.
        """
        new = copy(self)
        new.in_flight, new.stages = 0, {}
        new._route(discovered, self)
        new.prepared = new._prepare(self)
        new._watch_engines()
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
                prepared = part.prepare(self, known.get(part.name))
            except InvalidConfig as exc:
                problems += exc.problems
            else:
                if prepared is not None:
                    found[part.name] = prepared
        if problems:
            raise InvalidConfig(tuple(problems))
        return found

    def use_readings(self, found: ReplicaReadings) -> None:
        """Note how busy replicas say they are, beyond what this gateway sends them."""
        for one in found.readings:
            replica = self._routes.replicas.get((one.provider, one.address))
            if replica is not None:
                busy = self._routes.busy_at(replica)
                reading = one.reading
                replica.note(None if reading is None else reading.waiting + reading.running, busy)

    def _route(self, discovered: Discovered, before: "Runtime | None") -> None:
        """Build what depends on the replicas: upstreams, routes, and what plans over them."""
        self.discovered = discovered
        self._upstreams = build_upstreams(
            self.config, self.engines, before._upstreams if before else None, discovered
        )
        self.upstreams, self.links = self._upstreams.by_provider, self._upstreams.links
        self._routes = build_routes(
            self.config,
            self._upstreams,
            self.prices,
            self._models,
            self.experiments,
            before._routes if before else None,
            discovered,
        )
        self.backends, self.table = self._routes.backends, self._routes.table
        self.planner = Planner(self.table, self._routes.experiments)
        self.experiment_routers = self._routes.experiments

    def _watch_engines(self) -> None:
        self._watching = {name: partial(self._engine_changed, name) for name in self.engines}
        for name, listener in self._watching.items():
            self.engines[name].watch(listener)

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
        for engine in self._own.values():
            await engine.stop()

    def shared(self) -> tuple[Closing, ...]:
        """The resources that the generations before and after it may use as well."""
        fetcher = self._upstreams.fetcher
        fetchers = () if fetcher is None else (fetcher,)
        issuers = () if self.issuers is None else self.issuers.keys
        sign_in = () if self.sign_in is None else (self.sign_in,)
        parts = [one for part in self.prepared.values() for one in part.closing()]
        replicas = self._upstreams.replicas.values()
        return (*self.upstreams.values(), *replicas, *fetchers, *issuers, *sign_in, *parts)

    def divide_budgets(self, processes: int) -> None:
        """Take this process's part of the budgets of retries and hedges.

        processes: all that serve, of all gateways.
        """
        hedging = (route.hedging.budget for route in self.table.routes.values() if route.hedging)
        for budget in (*self._upstreams.budgets.values(), *hedging):
            budget.processes = processes

    def retire(self) -> None:
        """Stop watching the engines, because this generation gets no more requests."""
        for name, listener in self._watching.items():
            self.engines[name].unwatch(listener)
        self._watching.clear()

    def _engine_changed(self, provider: str, status: str) -> None:
        """Reset the breakers of a restarted engine: the failures were the old process's."""
        if status == READY:
            upstream = self.links[provider]
            upstream.on_engine_ready()
            at = now()
            for backend in self.backends.values():
                if backend.upstream is upstream:
                    backend.breaker.reset(at)


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


def _door(config: Config) -> CrossSiteGuard | None:
    server, auth = config.server, config.auth
    closed = auth.mode == "none" and not auth.allow_open
    if not closed and not server.allowed_hosts:
        return None
    names = (server.host, *server.allowed_hosts)
    return CrossSiteGuard(names, server.cors.allow_origins, pages=auth.mode == "none")
