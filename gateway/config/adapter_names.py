"""The known adapters: valid names for `adapter:`, and their default base URLs."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from strowger_gateway.adapters.base import Endpoint, Supports
from strowger_gateway.gateway.config.aws import aws_base_url
from strowger_gateway.gateway.config.schema.config import Config

if TYPE_CHECKING:
    from strowger_gateway.adapters.registry import Registry

_ANYWHERE = "https://localhost/v1"
LOCAL = "local"
"""The adapter whose backends are the local engine's; it has no wire format."""

GUARDRAILS = "guardrails"
"""The adapter whose backends are guardrails of the configuration, which moderate."""

WITHOUT_WIRE = (LOCAL, GUARDRAILS)
"""Adapters that send nothing to a provider."""


class Defaults(Struct, frozen=True, kw_only=True):
    """base_url: used if the configuration gives none; "": the configuration must.

    tokens: the adapter has a token endpoint for `oauth` at the host of the base URL.
    continues: the configuration may say how the vendor continues an answer, because it is one of
               OpenAI's dialect and nothing is known about that.
    """

    base_url: str = ""
    tokens: bool = False
    continues: bool = False


def known_adapters() -> Mapping[str, Defaults]:
    """All adapters by name, including plug-ins. Raises InvalidConfig if two share a name."""
    # Late, so that a caller that passes its own names loads no dialect.
    from strowger_gateway.adapters.registry import Registry

    return Installed(Registry())


class Installed(Mapping[str, Defaults]):
    """Look up an adapter on first use, so that unused plug-ins are not loaded."""

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry
        self._names = (*registry.names, *WITHOUT_WIRE)

    def __getitem__(self, name: str) -> Defaults:
        """Raises KeyError for an unknown name, InvalidConfig for a broken plug-in."""
        if name in WITHOUT_WIRE:
            return Defaults()
        if name not in self._names:
            raise KeyError(name)
        endpoint = self._registry.tokens(name)
        # A vendor whose endpoint is not at the base URL's host has a scope and no path.
        tokens = endpoint is not None and bool(endpoint.path)
        return Defaults(
            base_url=self._registry.base_url(name),
            tokens=tokens,
            continues=self._registry.may_continue(name),
        )

    def supports(self, name: str, base_url: str | None) -> Supports:
        """The capabilities of an adapter. Raises InvalidConfig for a broken plug-in."""
        address = base_url or self._registry.base_url(name) or _ANYWHERE
        return self._registry.build(name, Endpoint(name=name, base_url=address)).supports

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def with_base_urls(config: Config, adapters: Mapping[str, Defaults]) -> Config:
    """Fill in absent base URLs from the adapter or the region, if it has one."""
    providers = tuple(
        msgspec.structs.replace(provider, base_url=base_url)
        if provider.base_url is None
        and (base_url := adapters[provider.adapter].base_url or aws_base_url(provider))
        else provider
        for provider in config.providers
    )
    return msgspec.structs.replace(config, providers=providers)
