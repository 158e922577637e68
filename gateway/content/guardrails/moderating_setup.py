"""Build the moderation of a provider with `adapter: guardrails`, or see that it stays as it is."""

from collections.abc import Mapping

from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.content.guardrails.moderating import (
    guardrails_in,
    moderating_backends,
)
from strowger_gateway.gateway.content.guardrails.own_moderation import GuardrailUpstream
from strowger_gateway.gateway.content.guardrails.setup import guards_named


def own_moderation(config: Config, provider: Provider) -> GuardrailUpstream:
    """Return it with hooks of its own. Raises InvalidConfig."""
    names = _names(config, provider.name)
    used = {one for found in names.values() for one in found}
    return GuardrailUpstream(provider.name, guards_named(config, used), names, provider.timeouts)


def moderates_alike(before: Config, config: Config, provider: Provider) -> bool:
    """Whether the provider is the same in both, with the same guardrails as backends."""
    return (
        provider in before.providers
        and before.guardrails == config.guardrails
        and _names(before, provider.name) == _names(config, provider.name)
    )


def _names(config: Config, provider: str) -> Mapping[str, tuple[str, ...]]:
    """The guardrails by the model of the provider's backends."""
    known = [one.name for one in config.guardrails]
    return {
        one.name: guardrails_in(one.name, known)
        for one in moderating_backends(config)
        if one.provider == provider
    }
