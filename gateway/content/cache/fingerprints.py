"""A digest of everything in the configuration that the answers of a model depend on."""

from collections.abc import Mapping
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from strowger_gateway.gateway.config.adapter_names import GUARDRAILS
from strowger_gateway.gateway.config.schema.config import Config, Model
from strowger_gateway.schemas.secret import Secret


def fingerprints_of(config: Config) -> Mapping[str, str]:
    """Return the digest of each model, by name.

    It covers the model, those that it falls back to, their providers, and the capabilities, which
    decide about fields. Guardrails are part of it only where they are backends: otherwise they
    examine answers from the cache as they do others.
    """
    models = {model.name: model for model in config.models}
    models |= {alias: model for model in config.models for alias in model.aliases}
    return {model.name: _digest(config, models, model) for model in config.models}


def _digest(config: Config, models: Mapping[str, Model], model: Model) -> str:
    reached = _reached(models, model)
    names = {ref.provider for one in reached for ref in one.backends}
    names |= {
        name.partition("/")[0] for one in reached for rule in one.when for name in rule.backends
    }
    providers = [one for one in config.providers if one.name in names]
    parts = (
        [replace(one, cache=None) for one in reached],
        providers,
        config.capabilities,
        config.guardrails if any(one.adapter == GUARDRAILS for one in providers) else (),
    )
    text = msgspec.json.encode(parts, enc_hook=_revealed, order="deterministic")
    return blake2b(text, digest_size=16).hexdigest()


def _reached(models: Mapping[str, Model], model: Model) -> list[Model]:
    found: dict[str, Model] = {}
    waiting = [model]
    while waiting:
        one = waiting.pop()
        if one.name in found:
            continue
        found[one.name] = one
        names = [*one.fallback, *(name for row in one.fallback_by_error for name in row.models)]
        waiting += [models[name] for name in names if name in models]
    return list(found.values())


def _revealed(value: object) -> object:
    """An account's key decides about its answers, too. Digests do not give it away."""
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError(type(value))
