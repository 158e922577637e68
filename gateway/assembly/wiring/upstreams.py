"""Build the upstream of each configured provider, or take over the one that already serves it."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field

from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.assembly.wiring.engines import (
    EngineKnowledge,
    engine_elsewhere,
    engine_here,
)
from strowger_gateway.gateway.assembly.wiring.key_pools import pools_of
from strowger_gateway.gateway.assembly.wiring.remotes import remote_upstream
from strowger_gateway.gateway.backends.discovery.discovered import NOTHING_DISCOVERED, Discovered
from strowger_gateway.gateway.backends.discovery.source import HostPort
from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.backends.upstream.base import Upstream
from strowger_gateway.gateway.backends.upstream.image_fetching.image import ImageSource
from strowger_gateway.gateway.backends.upstream.key_pool.pool import KeyPool
from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from strowger_gateway.gateway.backends.upstream.no_replicas import NoReplicas
from strowger_gateway.gateway.backends.upstream.tls import TlsContexts
from strowger_gateway.gateway.config.adapter_names import GUARDRAILS
from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.routing.resilience.retry import RetryBudget

if TYPE_CHECKING:
    from strowger_gateway.gateway.backends.upstream.image_fetching.fetcher import ImageFetcher


class Upstreams(Struct, kw_only=True, eq=False):
    """The upstreams of one generation, by provider.

    config, engines: what they were built from. links: those of engines, again.
    known_engines: about the engines of other machines, shared with earlier generations.
    budgets: retries per provider; kept as long as its upstream is.
    fetcher: downloads images for providers that do not accept URLs; `None` until one needs it.
    replicas: by provider and address; without an address, of a backend whose replicas are unknown.
    contexts: the TLS contexts of this configuration.
    key_pools: of the providers with several keys; kept as long as those do not change.
    """

    config: Config
    engines: Mapping[str, EngineView]
    by_provider: dict[str, Upstream] = field(default_factory=dict[str, Upstream])
    links: dict[str, LocalUpstream] = field(default_factory=dict[str, LocalUpstream])
    budgets: dict[str, RetryBudget] = field(default_factory=dict[str, RetryBudget])
    known_engines: EngineKnowledge = field(default_factory=EngineKnowledge)
    fetcher: "ImageFetcher | None" = None
    replicas: dict[tuple[str, HostPort | None], Upstream] = field(
        default_factory=dict[tuple[str, HostPort | None], Upstream]
    )
    contexts: TlsContexts = field(default_factory=TlsContexts)
    key_pools: dict[str, KeyPool] = field(default_factory=dict[str, KeyPool])

    def images(self) -> ImageSource:
        """The fetcher, created for the first provider that needs it: few do, and it takes 7 MB."""
        if self.fetcher is None:
            from strowger_gateway.gateway.backends.upstream.image_fetching.fetcher import (
                ImageFetcher,
            )

            self.fetcher = ImageFetcher(self.config.server.fetch)
        return self.fetcher


def build_upstreams(
    config: Config,
    engines: Mapping[str, EngineView],
    before: Upstreams | None,
    discovered: Discovered = NOTHING_DISCOVERED,
) -> Upstreams:
    """Build the upstreams of a configuration, and of the replicas that are known.

    before: the previous generation's. Connections, credentials and budgets of a provider that has
    not changed are taken over.

    Raises InvalidConfig and ValueError for settings that only building can check: certificates,
    credentials, an adapter's base URL.
    """
    same_fetch = before is not None and before.config.server.fetch == config.server.fetch
    built = Upstreams(
        config=config,
        engines=engines,
        known_engines=before.known_engines if before else EngineKnowledge(),
        fetcher=before.fetcher if before and same_fetch else None,
    )
    if before is not None and before.config is config:
        built.contexts = before.contexts
    if config.server.fetch.ca_file is not None:
        built.images()  # raises now if the file is unreadable, even if no provider needs images
    remote = partial(
        remote_upstream, Registry(), built.images, built.contexts, config.server.workers
    )
    built.key_pools = pools_of(config, before)
    for provider in config.providers:
        name, engine = provider.name, engines.get(provider.name)
        kept = None if before is None else _unchanged(before, provider, engine, same_fetch)
        if provider.engine is not None:
            link = kept if isinstance(kept, LocalUpstream) else engine_here(provider, engines[name])
            built.links[name] = built.by_provider[name] = link
        elif provider.engines is not None:
            replica = (
                kept
                if isinstance(kept, LocalUpstream)
                else engine_elsewhere(provider, built.known_engines)
            )
            built.links[name] = built.by_provider[name] = replica
        elif provider.adapter == GUARDRAILS:
            built.by_provider[name] = _guardrails(config, provider, before)
        else:
            built.by_provider[name] = kept or remote(provider, pool=built.key_pools.get(name))
    providers = {provider.name: provider for provider in config.providers}
    for name, address in _addresses(config, discovered):
        kept = before.replicas.get((name, address)) if before else None
        if before is None or not same_fetch or providers[name] not in before.config.providers:
            kept = None
        at = NoReplicas(name) if address is None else address
        pool = built.key_pools.get(name)
        built.replicas[name, address] = kept or remote(providers[name], at=at, pool=pool)
    built.budgets = _budgets(built, before)
    return built


def _budgets(built: Upstreams, before: Upstreams | None) -> dict[str, RetryBudget]:
    """Return those of the previous generation where it has the same upstream."""
    return {
        name: before.budgets[name]
        if before and before.by_provider.get(name) is upstream
        else RetryBudget()
        for name, upstream in built.by_provider.items()
    }


def _guardrails(config: Config, provider: Provider, before: Upstreams | None) -> Upstream:
    """The guardrails that are backends; their hooks stay while nothing of them changes."""
    from strowger_gateway.gateway.content.guardrails.moderating_setup import (
        moderates_alike,  # late: only with such a provider
        own_moderation,
    )

    if before is not None and moderates_alike(before.config, config, provider):
        kept = before.by_provider.get(provider.name)
        if kept is not None:
            return kept
    return own_moderation(config, provider)


def _addresses(config: Config, discovered: Discovered) -> Iterator[tuple[str, HostPort | None]]:
    """Yield the replicas that the configuration uses; `None` for an empty set."""
    for model in config.models:
        for ref in model.backends:
            if ref.discover is not None:
                for address in discovered.of(ref.discover) or (None,):
                    yield ref.provider, address


def _unchanged(
    before: Upstreams, provider: Provider, engine: EngineView | None, same_fetch: bool
) -> Upstream | None:
    """The previous generation's upstream of this provider, if nothing about it has changed."""
    name = provider.name
    if engine is not None:
        link = before.links.get(name) if before.engines.get(name) is engine else None
        return link if link and link.timeouts == provider.timeouts else None
    same = same_fetch and provider in before.config.providers
    return before.by_provider.get(name) if same else None
