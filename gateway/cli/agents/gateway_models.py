"""The models that a key may use, and which of them an agent gets."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.gateway.cli.address import Address
from strowger_gateway.gateway.cli.agents.tools.tool import AgentTarget, TokenPrice
from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.gateway.cli.http_client import fetch
from strowger_gateway.schemas.close_names import close_names

SMALL: Final = 32_768
"""Tokens of context below which an agent's own prompt, 10,000 to 30,000 tokens, does not fit."""


class _Architecture(Struct, frozen=True):
    input_modalities: tuple[str, ...] = ()
    output_modalities: tuple[str, ...] = ()


class _Capabilities(Struct, frozen=True):
    tools: bool | UnsetType = UNSET


class _Pricing(Struct, frozen=True):
    """US dollars per token, as text."""

    prompt: str
    completion: str
    input_cache_read: str | None = None
    input_cache_write: str | None = None


class GatewayModel(Struct):
    """A row of `GET /v1/models`. What the gateway does not know is absent."""

    id: str
    context_length: int | None = None
    max_completion_tokens: int | None = None
    architecture: _Architecture = _Architecture()
    capabilities: _Capabilities = _Capabilities()
    pricing: _Pricing | None = None

    @property
    def answers_text(self) -> bool:
        made = self.architecture.output_modalities
        return not made or "text" in made

    def target(self, url: str, secret: str) -> AgentTarget:
        return AgentTarget(
            url=url,
            model=self.id,
            context=self.context_length,
            max_output=self.max_completion_tokens,
            inputs=self.architecture.input_modalities,
            price=None if self.pricing is None else _price(self.pricing),
            secret=secret,
        )

    def warnings(self) -> Sequence[str]:
        """Return what makes it unfit for an agent."""
        found: list[str] = []
        if self.capabilities.tools is False:
            found.append(f"{self.id} does not call functions, which agents work with")
        if self.context_length is not None and self.context_length < SMALL:
            found.append(
                f"the context of {self.id} is {self.context_length:,} tokens; an agent's first "
                "request has 10,000 to 30,000"
            )
        return found


def _price(found: _Pricing) -> TokenPrice:
    read, write = found.input_cache_read, found.input_cache_write
    return TokenPrice(
        input=float(found.prompt),
        output=float(found.completion),
        cache_read=None if read is None else float(read),
        cache_write=None if write is None else float(write),
    )


class _Models(Struct):
    data: list[GatewayModel]


def models_of(address: Address, key: str) -> list[GatewayModel]:
    """Return the models that a key may use. Raises Faults."""
    return fetch(address, "/v1/models", _Models, key=key).data


def chosen(models: Sequence[GatewayModel], wanted: str | None, address: Address) -> GatewayModel:
    """Return the wanted model, or the only one. Raises Faults with those that there are."""
    usable = [one for one in models if one.answers_text and not one.id.endswith("*")]
    if wanted is None:
        if len(usable) == 1:
            return usable[0]
        if not usable:
            raise Faults((f"{address} has no model that answers with text for this key",))
        raise Faults((f"give --model: one of {_listed([one.id for one in usable])}",))
    for one in models:
        if one.id == wanted:
            return one
    for one in models:
        if one.id.endswith("*") and wanted.startswith(one.id[:-1]):
            return msgspec.structs.replace(one, id=wanted)
    names = [one.id for one in usable]
    near = close_names(wanted, names)
    instead = f"did you mean {_listed(near)}?" if near else f"it may use {_listed(names)}"
    raise Faults((f"--model: this key may use no model {wanted!r} at {address}; {instead}",))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown or "none"
