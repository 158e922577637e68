"""From a configuration to what serves it: transports, adapters, engines and the route table."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from adapters.base import Endpoint as ProviderEndpoint
from adapters.registry import Registry
from gateway.auth import AdminKey, Keyring
from gateway.config.model import Config, Model, Provider, WhenRule
from gateway.engines import READY, EngineProcess, engine_settings
from gateway.routing.breaker import Breaker
from gateway.routing.policies import POLICIES
from gateway.routing.prices import Prices
from gateway.routing.retry import RetryBudget
from gateway.routing.route import NOTHING, Backend, Detour, Hedging, Route, RouteTable, Rule
from gateway.upstream.base import Upstream
from gateway.upstream.bridge.wrapping import bridged
from gateway.upstream.credentials.configured import credentials_of
from gateway.upstream.fetching.fetcher import Fetcher
from gateway.upstream.fetching.upstream import fetching
from gateway.upstream.general import HttpxTransport
from gateway.upstream.http import HttpUpstream
from gateway.upstream.local import LocalUpstream
from gateway.upstream.transport import Transport
from gateway.upstream.wire import WireTransport

HEDGES_FLOOR, HEDGES_SHARE = 10, 0.1
"""So many of a model's requests in any 10 seconds are hedged, or this part, if that is more."""


class Runtime:
    """One generation of the configuration, live. Build it, `start` it, `close` it."""

    def __init__(self, config: Config, *, run_dir: Path) -> None:
        self.config = config
        self.keyring = Keyring(config.auth)
        self.admin_key = AdminKey(config.auth)
        self.engines: dict[str, EngineProcess] = {}
        self.links: dict[str, LocalUpstream] = {}
        self.upstreams: dict[str, Upstream] = {}
        registry = Registry()
        self._fetcher = Fetcher(config.server.fetch)
        local = sum(provider.engine is not None for provider in config.providers)
        for provider in config.providers:
            if provider.engine is not None:
                settings = engine_settings(provider, engines=local)
                engine = EngineProcess(
                    provider.name,
                    settings,
                    run_dir,
                    on_change=partial(self._engine_changed, provider.name),
                )
                self.engines[provider.name] = engine
                link = LocalUpstream(
                    provider.name,
                    engine.socket_path,
                    partial(getattr, engine, "status"),
                    engine.ready_in,
                )
                self.links[provider.name] = self.upstreams[provider.name] = link
                continue
            self.upstreams[provider.name] = _remote(provider, registry, self._fetcher)
        budgets = {provider.name: RetryBudget() for provider in config.providers}
        self.prices = Prices(config.prices)
        self.backends: dict[str, Backend] = {}
        routes = [self._route(model, budgets) for model in config.models]
        aliases = {alias: model.name for model in config.models for alias in model.aliases}
        self.table = RouteTable(routes, aliases)
        self.default_model = _default_model(config)

    @property
    def ready(self) -> bool:
        """Whether every local engine is warm."""
        return all(engine.ready for engine in self.engines.values())

    async def start(self) -> None:
        for engine in self.engines.values():
            await engine.start()

    async def wait_ready(self) -> bool:
        """Once every engine is warm: true; once one has given up: false."""
        return all([await engine.wait_ready() for engine in self.engines.values()])

    async def close(self) -> None:
        for upstream in self.upstreams.values():
            await upstream.aclose()
        await self._fetcher.aclose()
        for engine in self.engines.values():
            await engine.stop()

    def _engine_changed(self, provider: str, status: str) -> None:
        """A process that has just become ready is not to blame for what the one before it did."""
        if status == READY:
            upstream = self.upstreams[provider]
            for backend in self.backends.values():
                if backend.upstream is upstream:
                    backend.breaker.renew()

    def _route(self, model: Model, budgets: Mapping[str, RetryBudget]) -> Route:
        """Backends' weights default to an even split, so `None` everywhere is 1 each."""

        def backend(name: str) -> Backend:
            """The model's own, made once: what is known of its health belongs to all its uses."""
            key = f"{model.name}: {name}"
            if key not in self.backends:
                provider, _, theirs = name.partition("/")
                self.backends[key] = Backend(
                    name=name,
                    model=theirs,
                    upstream=self.upstreams[provider],
                    supports=self.upstreams[provider].supports,
                    breaker=Breaker(model.breaker),
                    budget=budgets[provider],
                    prices=self.prices,
                )
            return self.backends[key]

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
            detours=tuple(
                Detour(codes=frozenset(row.codes), routes=row.models)
                for row in model.fallback_by_error
            ),
            retry=model.retry,
            deadline_s=model.deadline_s,
            fallback=model.fallback,
            on_unsupported=model.on_unsupported,
            hedging=None
            if model.hedge_after_s is None
            else Hedging(
                after_s=model.hedge_after_s,
                budget=RetryBudget(floor=HEDGES_FLOOR, share=HEDGES_SHARE),
            ),
            defaults=NOTHING if model.defaults == NOTHING else model.defaults,
            overrides=NOTHING if model.overrides == NOTHING else model.overrides,
        )


def _rule_weights(when: WhenRule, weights: Mapping[str, float]) -> tuple[float, ...]:
    """The model's own, where all of the rule's backends have some; else an even split."""
    own = tuple(weights.get(name, 0.0) for name in when.backends)
    return own if all(own) else tuple(1.0 for _ in own)


def _remote(provider: Provider, registry: Registry, fetcher: Fetcher) -> Upstream:
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
        _transport(provider, base_url),
        provider.timeouts,
        credentials=credentials_of(provider, base_url, registry),
    )
    return bridged(
        fetching(upstream, fetcher),
        None if provider.tokenizer is None else Path(provider.tokenizer),
    )


def _transport(provider: Provider, base_url: str) -> Transport:
    """Our own client, unless a proxy is in the way."""
    if provider.proxy is not None:
        return HttpxTransport(
            base_url,
            name=provider.name,
            tls=provider.tls,
            max_connections=provider.max_connections,
            proxy=provider.proxy.reveal(),
        )
    return WireTransport(
        base_url, name=provider.name, tls=provider.tls, max_connections=provider.max_connections
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
