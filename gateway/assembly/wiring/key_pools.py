"""Build the pools of keys of a configuration, which go on where the ones before them are."""

from collections.abc import Mapping
from typing import Protocol

from strowger_gateway.gateway.backends.upstream.key_pool.pool import KeyPool
from strowger_gateway.gateway.backends.upstream.key_pool.pooled_key import PooledKey
from strowger_gateway.gateway.config.schema.config import Config, Provider


class PoolsBefore(Protocol):
    """The pools of an earlier generation, with its configuration."""

    @property
    def config(self) -> Config: ...
    @property
    def key_pools(self) -> Mapping[str, KeyPool]: ...


def pools_of(config: Config, before: PoolsBefore | None) -> dict[str, KeyPool]:
    """Return the pool of each provider with several keys, by its name.

    That of a provider that has not changed is the same object. Of another one, keys with the same
    name and secret go on: what they have used, and how long they rest.
    """
    return {one.name: _pool(one, before) for one in config.providers if one.api_keys}


def _pool(provider: Provider, before: PoolsBefore | None) -> KeyPool:
    old = None if before is None else before.key_pools.get(provider.name)
    if before is None or old is None:
        return _made(provider)
    known = next(one for one in before.config.providers if one.name == provider.name)
    if known == provider:
        return old
    pool = _made(provider)
    secrets = {one.name: one.key for one in known.pooled_keys}
    for one, key in zip(pool.keys, provider.pooled_keys, strict=True):
        earlier = old.named(one.name)
        if earlier is not None and secrets.get(one.name) == key.key:
            one.take_over(earlier)
    return pool


def _made(provider: Provider) -> KeyPool:
    return KeyPool(
        provider.name,
        [
            PooledKey(
                one.name,
                one.weight,
                one.requests_per_minute,
                one.tokens_per_minute,
                one.digest,
            )
            for one in provider.pooled_keys
        ],
    )
