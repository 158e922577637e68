"""From a configuration to what serves it: transports, adapters, engines and the route table."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from adapters.base import Endpoint as ProviderEndpoint
from adapters.capabilities import of_model
from adapters.registry import Registry
from gateway.access.auth import AdminKey, Keyring, MetricsAccess
from gateway.access.client_address import ClientAddresses
from gateway.asgi.cross_site import Door
from gateway.clock import now
from gateway.config.error_codes import plain
from gateway.config.schema import Config, Model, Provider, WhenRule
from gateway.engine_process.process import READY, EngineProcess, EngineView, engine_settings
from gateway.routing.planning.enrolment import ExperimentRouter, ExperimentState
from gateway.routing.planning.policies import POLICIES
from gateway.routing.planning.prices import Prices
from gateway.routing.planning.route import (
    NO_VALUES,
    Backend,
    ErrorFallback,
    Hedging,
    Mirror,
    Route,
    RouteTable,
    Rule,
)
from gateway.routing.resilience.breaker_per_model import Breakers
from gateway.routing.resilience.circuit_breaker import Breaker
from gateway.routing.resilience.load import Load
from gateway.routing.resilience.retry import RetryBudget
from gateway.telemetry.logs import line_style
from gateway.upstream.adaptation.compose import adapt
from gateway.upstream.base import Upstream
from gateway.upstream.credentials.factory import credentials_of
from gateway.upstream.http import HttpUpstream
from gateway.upstream.image_fetching.image import ImageSource
from gateway.upstream.image_fetching.upstream import with_image_fetching
from gateway.upstream.local_engine import LocalUpstream
from gateway.upstream.origin import addresses_of
from gateway.upstream.tls import TlsContexts
from gateway.upstream.transport import Transport
from gateway.upstream.wire import WireTransport

if TYPE_CHECKING:
    from gateway.upstream.image_fetching.fetcher import ImageFetcher

HEDGES_FLOOR, HEDGES_SHARE = 10, 0.1
"""So many of a model's requests in any 10 seconds are hedged, or this part, if that is more."""


class Closing(Protocol):
    """Something that several generations may use, and the last of them closes."""

    async def aclose(self) -> None: ...


class Runtime:
    """One generation of the configuration, live. Build it, `start` it, `close` it.

    experiments: how they stand; handed on from generation to generation.
    in_flight: requests that began with it and are not over; work that outlives its request
               (a mirrored copy) counts itself here, too.
    """

    def __init__(
        self,
        config: Config,
        *,
        run_dir: Path,
        engines: Mapping[str, EngineView] | None = None,
        before: "Runtime | None" = None,
    ) -> None:
        """engines: by provider, where somebody else owns them; otherwise it makes its own.

        before: whose connections, credentials, breakers, loads and budgets go on where a provider
                is the same in both. Raises InvalidConfig and ValueError.
        """
        self.config = config
        self.in_flight = 0
        self.experiments = before.experiments if before else ExperimentState()
        self.keyring = Keyring(config.auth)
        self.several_keys = config.auth.mode == "keys" and len(config.auth.keys) > 1
        self.admin_key = AdminKey(config.auth)
        self.metrics_access = MetricsAccess(config.auth)
        shown = config.logging.client_address
        self.clients = ClientAddresses(config.server.trusted_proxies, shown=shown)
        self.door = _door(config)
        self._own = engine_processes(config, run_dir) if engines is None else {}
        self.engines: Mapping[str, EngineView] = self._own if engines is None else engines
        self.links: dict[str, LocalUpstream] = {}
        self.upstreams: dict[str, Upstream] = {}
        same_fetch = before is not None and before.config.server.fetch == config.server.fetch
        self._fetcher: ImageFetcher | None = before._fetcher if before and same_fetch else None
        if config.server.fetch.ca_file is not None:
            self._images()  # which says so where it cannot be read, needed or not
        remote = partial(_remote, registry=Registry(), images=self._images, contexts=TlsContexts())
        for provider in config.providers:
            name = provider.name
            kept = before._same(provider, self.engines.get(name), same_fetch) if before else None
            if provider.engine is not None:
                link = (
                    kept
                    if isinstance(kept, LocalUpstream)
                    else _local(provider, self.engines[name])
                )
                self.links[name] = self.upstreams[name] = link
            else:
                self.upstreams[name] = kept or remote(provider)
        self.budgets: dict[str, RetryBudget] = {
            name: before.budgets[name]
            if before and before.upstreams.get(name) is upstream
            else RetryBudget()
            for name, upstream in self.upstreams.items()
        }
        self.prices = Prices(config.prices)
        self.backends: dict[str, Backend] = {}
        routes = [self._route(model, before) for model in config.models]
        aliases = {alias: model.name for model in config.models for alias in model.aliases}
        self.table = RouteTable(routes, aliases)
        self.default_model = _default_model(config)
        self._watching = {name: partial(self._engine_changed, name) for name in self.engines}
        for name, hear in self._watching.items():
            self.engines[name].watch(hear)

    @property
    def ready(self) -> bool:
        """Whether every local engine is warm."""
        return all(engine.ready for engine in self.engines.values())

    async def start(self) -> None:
        """Start the engines that are its own."""
        for engine in self._own.values():
            await engine.start()

    async def wait_ready(self) -> bool:
        """Once every engine of its own is warm: true; once one has given up: false."""
        return all([await engine.wait_ready() for engine in self._own.values()])

    async def close(self) -> None:
        """Everything at once, whatever is under way."""
        self.retire()
        for shared in self.shared():
            await shared.aclose()
        for engine in self._own.values():
            await engine.stop()

    def shared(self) -> tuple[Closing, ...]:
        """What the generations before and after it may use as well."""
        fetchers = () if self._fetcher is None else (self._fetcher,)
        return (*self.upstreams.values(), *fetchers)

    def retire(self) -> None:
        """It gets no more requests: what becomes of the engines is no concern of its own."""
        for name, hear in self._watching.items():
            self.engines[name].unwatch(hear)
        self._watching.clear()

    def _images(self) -> ImageSource:
        """Made for the first provider that needs it: few do, and it takes 7 MB."""
        if self._fetcher is None:
            from gateway.upstream.image_fetching.fetcher import ImageFetcher

            self._fetcher = ImageFetcher(self.config.server.fetch)
        return self._fetcher

    def _same(
        self, provider: Provider, engine: EngineView | None, same_fetch: bool
    ) -> Upstream | None:
        """The upstream that serves this provider as it is configured now, if there is one."""
        name = provider.name
        if engine is not None:
            link = self.links.get(name) if self.engines.get(name) is engine else None
            return link if link and link.timeouts == provider.timeouts else None
        same = same_fetch and provider in self.config.providers
        return self.upstreams.get(name) if same else None

    def _engine_changed(self, provider: str, status: str) -> None:
        """A process that has just become ready is not to blame for what the one before it did."""
        if status == READY:
            upstream = self.links[provider]
            upstream.on_engine_ready()
            at = now()
            for backend in self.backends.values():
                if backend.upstream is upstream:
                    backend.breaker.reset(at)

    def _backend(self, model: Model, name: str, before: "Runtime | None", use: str = "") -> Backend:
        """The model's own, made once: what is known of its health belongs to all its uses.

        use: but not to one that is kept apart.
        """
        key = f"{model.name}: {name}{use}"
        if key in self.backends:
            return self.backends[key]
        provider, _, theirs = name.partition("/")
        upstream = self.upstreams[provider]
        old = before.backends.get(key) if before else None
        known = old if old is not None and old.upstream is upstream else None
        same_rule = known is not None and known.breaker.rule == model.breaker
        self.backends[key] = Backend(
            name=name,
            model=theirs,
            upstream=upstream,
            supports=of_model(upstream.supports, theirs),
            breaker=known.breaker if known and same_rule else Breaker(model.breaker),
            breakers=known.breakers if known and same_rule else Breakers(model.breaker),
            budget=self.budgets[provider],
            load=known.load if known else Load(),
            prices=self.prices,
        )
        return self.backends[key]

    def _route(self, model: Model, before: "Runtime | None") -> Route:
        """Backends' weights default to an even split, so `None` everywhere is 1 each."""

        def backend(name: str) -> Backend:
            return self._backend(model, name, before)

        weights = {
            f"{ref.provider}/{ref.model}": 1.0 if ref.weight is None else ref.weight
            for ref in model.backends
        }
        return Route(
            name=model.name,
            backends=tuple(backend(name) for name in weights),
            weights=tuple(weights.values()),
            policy=POLICIES[model.policy],
            sticky_by=model.sticky_by,
            rules=tuple(
                Rule(
                    when=when,
                    backends=tuple(backend(name) for name in when.backends),
                    weights=_rule_weights(when, weights),
                )
                for when in model.when
            ),
            require=model.require,
            error_fallbacks=tuple(
                ErrorFallback(codes=frozenset(map(plain, row.codes)), routes=row.models)
                for row in model.fallback_by_error
            ),
            retry=model.retry,
            deadline_s=model.deadline_s,
            fallback=model.fallback,
            on_unsupported=model.on_unsupported,
            hedging=_hedging(model, before),
            mirror=None
            if model.mirror is None
            else Mirror(
                backend=self._backend(model, model.mirror.backend, before, " (mirror)"),
                share=model.mirror.share,
            ),
            defaults=NO_VALUES if model.defaults == NO_VALUES else model.defaults,
            overrides=NO_VALUES if model.overrides == NO_VALUES else model.overrides,
            experiment=self._trial(model, backend),
        )

    def _trial(self, model: Model, backend: Callable[[str], Backend]) -> ExperimentRouter | None:
        """The experiment over this model. backend: the model's own, by name."""
        for experiment in self.config.experiments:
            if experiment.model == model.name:
                return ExperimentRouter(experiment, backend, self.experiments)
        return None


def _hedging(model: Model, before: Runtime | None) -> Hedging | None:
    """With what is left of the model's budget, where it hedged before."""
    if model.hedge_after_s is None:
        return None
    old = before.table.routes.get(model.name) if before else None
    known = old.hedging if old else None
    budget = known.budget if known else RetryBudget(floor=HEDGES_FLOOR, share=HEDGES_SHARE)
    return Hedging(after_s=model.hedge_after_s, budget=budget)


def _rule_weights(when: WhenRule, weights: Mapping[str, float]) -> tuple[float, ...]:
    """The model's own, where all of the rule's backends have some; else an even split."""
    own = tuple(weights.get(name, 0.0) for name in when.backends)
    return own if all(own) else tuple(1.0 for _ in own)


def engine_processes(config: Config, run_dir: Path) -> dict[str, EngineProcess]:
    """An engine for each local provider, by its name; not started."""
    local = [provider for provider in config.providers if provider.engine is not None]
    gathers = line_style(config.logging) == "json"
    return {
        provider.name: EngineProcess(
            provider.name,
            engine_settings(provider, engines=len(local)),
            run_dir,
            gathers=gathers,
        )
        for provider in local
    }


def _local(provider: Provider, engine: EngineView) -> LocalUpstream:
    return LocalUpstream(
        engine.name,
        engine.socket_path,
        provider.timeouts,
        partial(getattr, engine, "status"),
        engine.ready_in,
        partial(getattr, engine, "state"),
    )


def _remote(
    provider: Provider,
    *,
    registry: Registry,
    images: Callable[[], ImageSource],
    contexts: TlsContexts,
) -> Upstream:
    base_url = (provider.base_url or registry.base_url(provider.adapter)).rstrip("/")
    endpoint = ProviderEndpoint(
        name=provider.name,
        base_url=base_url,
        key=provider.api_key,
        headers=tuple((name, value.reveal()) for name, value in provider.headers.items()),
    )
    adapter = registry.build(provider.adapter, endpoint)
    upstream = HttpUpstream(
        provider.name,
        adapter,
        _transport(provider, base_url, contexts),
        provider.timeouts,
        credentials=credentials_of(provider, base_url, registry),
        client_fields=provider.client_fields,
        addresses=addresses_of(base_url),
    )
    return adapt(
        with_image_fetching(upstream, images),
        None if provider.tokenizer is None else Path(provider.tokenizer),
    )


def _transport(provider: Provider, base_url: str, contexts: TlsContexts) -> Transport:
    """Our own client, unless a proxy is in the way."""
    if provider.proxy is not None:
        # Late, because httpx takes 6 MB.
        from gateway.upstream.httpx_transport import HttpxTransport

        return HttpxTransport(
            base_url,
            name=provider.name,
            tls=provider.tls,
            max_connections=provider.max_connections,
            proxy=provider.proxy.reveal(),
        )
    return WireTransport(
        base_url,
        name=provider.name,
        tls=provider.tls,
        max_connections=provider.max_connections,
        contexts=contexts,
    )


def _default_model(config: Config) -> str:
    """Who answers on routes that name no model: the configured one, or the only one there is.

    Where several models are served, the only one with a local engine; "" where nobody can tell.
    """
    if config.server.default_model is not None:
        return config.server.default_model
    engines = {provider.name for provider in config.providers if provider.engine is not None}
    local = [
        model.name
        for model in config.models
        if any(ref.provider in engines for ref in model.backends)
    ]
    for names in (local, [model.name for model in config.models]):
        if len(names) == 1 and not names[0].endswith("*"):
            return names[0]
    return ""


def _door(config: Config) -> Door | None:
    server, auth = config.server, config.auth
    closed = auth.mode == "none" and not auth.allow_open
    if not closed and not server.allowed_hosts:
        return None
    names = (server.host, *server.allowed_hosts)
    return Door(names, server.cors.allow_origins, pages=auth.mode == "none")
