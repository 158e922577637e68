"""Which adapters there are: the names that `adapter:` may have, and their default base URLs."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from adapters.base import TokenEndpoint
from gateway.config.aws import aws_base_url
from gateway.config.model import Config

LOCAL = "local"
"""The adapter whose backends are the local engine's; it has no wire format."""


class Defaults(Struct, frozen=True, kw_only=True):
    """base_url: used where the configuration gives none; "" where it must.

    tokens: there is a token endpoint for `oauth` that goes with the base URL.
    """

    base_url: str = ""
    tokens: bool = False


def known_adapters() -> Mapping[str, Defaults]:
    """By name, plug-ins among them. Raises InvalidConfig when two plug-ins share a name."""
    # Late, so that a caller that brings its own names loads no dialect.
    from adapters.registry import Registry

    registry = Registry()
    return {
        **{
            name: Defaults(
                base_url=registry.base_url(name), tokens=_has_tokens(registry.tokens(name))
            )
            for name in registry.names
        },
        LOCAL: Defaults(),
    }


def _has_tokens(endpoint: TokenEndpoint | None) -> bool:
    """A vendor whose endpoint is not at the base URL's host has a scope and no path."""
    return endpoint is not None and bool(endpoint.path)


def with_base_urls(config: Config, adapters: Mapping[str, Defaults]) -> Config:
    """The configuration with each absent base URL filled in, where adapter or region has one."""
    providers = tuple(
        msgspec.structs.replace(provider, base_url=base_url)
        if provider.base_url is None
        and (base_url := adapters[provider.adapter].base_url or aws_base_url(provider))
        else provider
        for provider in config.providers
    )
    return msgspec.structs.replace(config, providers=providers)
