"""Replicas of engines on other machines: one provider and one backend for each address.

Everything that belongs to a backend (breaker, load, prefix affinity, retries, metrics) so belongs
to one engine. A replica of provider `pool` is named `pool@HOST:PORT`.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.config import (
    BackendRef,
    Config,
    Model,
    Provider,
    WhenRule,
)

LONGEST = 120
"""Characters of an address, as part of a backend's name."""

NO_ADDRESSES: Mapping[str, Sequence[str]] = {}


def with_replicas(config: Config, found: Mapping[str, Sequence[str]] = NO_ADDRESSES) -> Config:
    """Return the configuration with each provider of engines replaced by its replicas.

    found: addresses by provider, besides those that it lists. A provider without any address
    stays; its requests fail until one is known. The weight of a backend is divided among its
    replicas.
    """
    replicas: dict[str, tuple[Provider, ...]] = {}
    for provider in config.providers:
        if provider.engines is None or provider.replica_of:
            continue
        known = (one for one in found.get(provider.name, ()) if len(one) <= LONGEST)
        hosts = dict.fromkeys((*provider.engines.hosts, *known))
        if provider.engines.discover is not None and provider.name not in found:
            continue  # not before the first look: the provider itself is what is expanded then
        made = tuple(_replica(provider, host) for host in hosts)
        if made:
            replicas[provider.name] = made
    if not replicas:
        return config
    names = {pool: tuple(one.name for one in made) for pool, made in replicas.items()}
    return replace(
        config,
        providers=tuple(
            one for given in config.providers for one in replicas.get(given.name, (given,))
        ),
        models=tuple(_model(model, names) for model in config.models),
        prices=tuple(
            replace(row, match=name) for row in config.prices for name in _each(row.match, names)
        ),
        capabilities=tuple(
            replace(row, match=name)
            for row in config.capabilities
            for name in _each(row.match, names)
        ),
    )


def _replica(provider: Provider, host: str) -> Provider:
    assert provider.engines is not None
    engines = replace(provider.engines, hosts=(host,), discover=None)
    return replace(
        provider, name=f"{provider.name}@{host}", engines=engines, replica_of=provider.name
    )


def _model(model: Model, names: Mapping[str, Sequence[str]]) -> Model:
    if all(ref.provider not in names for ref in model.backends):
        return model
    backends = tuple(one for ref in model.backends for one in _refs(ref, names))
    return replace(model, backends=backends, when=tuple(_rule(rule, names) for rule in model.when))


def _refs(ref: BackendRef, names: Mapping[str, Sequence[str]]) -> Iterator[BackendRef]:
    replicas = names.get(ref.provider)
    if replicas is None:
        yield ref
        return
    weight = (1.0 if ref.weight is None else ref.weight) / len(replicas)
    for name in replicas:
        yield replace(ref, provider=name, weight=weight)


def _rule(rule: WhenRule, names: Mapping[str, Sequence[str]]) -> WhenRule:
    backends = tuple(one for name in rule.backends for one in _each(name, names))
    return replace(rule, backends=backends)


def _each(backend: str, names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield PROVIDER/MODEL with each replica for the provider."""
    provider, _, model = backend.partition("/")
    replicas = names.get(provider)
    if replicas is None:
        yield backend
        return
    for name in replicas:
        yield f"{name}/{model}"
