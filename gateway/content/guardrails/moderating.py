"""Which guardrails moderate: the backends of providers with `adapter: guardrails`."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from strowger_gateway.gateway.config.adapter_names import GUARDRAILS
from strowger_gateway.gateway.config.problems import Path
from strowger_gateway.gateway.config.schema.config import Config, Model


class ModeratingBackend(Struct, frozen=True):
    """A place of the configuration that names guardrails of a provider, as a backend's model.

    name: the model's, as a comma-separated list of guardrails.
    """

    path: Path
    provider: str
    name: str


def moderating_backends(config: Config) -> Iterator[ModeratingBackend]:
    """Yield the backends of models, of their rules and mirrors, and those of variants."""
    own = own_providers(config)
    if not own:
        return
    for index, model in enumerate(config.models):
        for place, ref in enumerate(model.backends):
            if ref.provider in own:
                path: Path = ("models", index, "backends", place, "model")
                yield ModeratingBackend(path, ref.provider, ref.model)
        for place, rule in enumerate(model.when):
            for spot, backend in enumerate(rule.backends):
                yield from _named(own, ("models", index, "when", place, "backends", spot), backend)
        if model.mirror is not None:
            yield from _named(own, ("models", index, "mirror", "backend"), model.mirror.backend)
    for index, experiment in enumerate(config.experiments):
        for place, variant in enumerate(experiment.variants):
            path = ("experiments", index, "variants", place, "backend")
            yield from _named(own, path, variant.backend)


def own_providers(config: Config) -> frozenset[str]:
    """The names of the providers whose backends are guardrails."""
    return frozenset(one.name for one in config.providers if one.adapter == GUARDRAILS)


def guardrails_in(name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the guardrails that a backend's model names, in order: one, or several with commas."""
    if name in known:
        return (name,)
    return tuple(dict.fromkeys(one.strip() for one in name.split(",")))


def moderated_here(config: Config) -> frozenset[str]:
    """The models whose requests reach no other backend than guardrails, by name.

    A fallback, a mirror or an experiment might send their text elsewhere, so these are none.
    """
    own = own_providers(config)
    tried = {one.model for one in config.experiments}
    return frozenset(
        model.name
        for model in config.models
        if own and model.name not in tried and _stays(model, own)
    )


def _stays(model: Model, own: frozenset[str]) -> bool:
    leaves = model.fallback or model.fallback_by_error or model.mirror
    used = [ref.provider for ref in model.backends]
    used += [name.partition("/")[0] for rule in model.when for name in rule.backends]
    return not leaves and all(provider in own for provider in used)


def _named(own: frozenset[str], path: Path, backend: str) -> Iterator[ModeratingBackend]:
    provider, _, name = backend.partition("/")
    if provider in own:
        yield ModeratingBackend(path, provider, name)
