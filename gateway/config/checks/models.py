"""Cross-checks of `models`: names, backends, weights and fallbacks."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET

from strowger_gateway.adapters.base import Range
from strowger_gateway.gateway.config.adapter_names import LOCAL
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.config import (
    BackendRef,
    Config,
    Model,
    Provider,
    RequestFields,
)
from strowger_gateway.schemas.sampling import Sampling

_NAME = re.compile(r"[A-Za-z0-9@+:/]([A-Za-z0-9._/:@+-]*[A-Za-z0-9@+:/])?")
_WILDCARD = re.compile(r"([A-Za-z0-9@+:/][A-Za-z0-9._/:@+-]*)?\*")

RANGES: Mapping[str, Range] = {
    "temperature": Range(minimum=0),
    "top_p": Range(minimum=0, maximum=1),
    "top_k": Range(minimum=1),
    "min_p": Range(minimum=0, maximum=1),
    "typical_p": Range(above=0, maximum=1),
    "max_tokens": Range(minimum=1),
    "min_tokens": Range(minimum=0),
    "seed": Range(minimum=-(2**63), below=2**64),
    "presence_penalty": Range(minimum=-2, maximum=2),
    "frequency_penalty": Range(minimum=-2, maximum=2),
    "repetition_penalty": Range(above=0),
    "no_repeat_ngram_size": Range(minimum=0),
    "top_logprobs": Range(minimum=0, maximum=20),
    "n": Range(minimum=1),
    "best_of": Range(minimum=1),
    "beam_width": Range(minimum=1),
    "top_p_decay": Range(above=0, maximum=1),
    "top_p_min": Range(above=0, maximum=1),
}
"""The widest bounds of all APIs: a client must be able to send the operator's value."""


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Known values of `reasoning_effort`, of all vendors; vendors may have more."""


def check_models(config: Config, problems: Problems) -> None:
    providers = {provider.name: provider for provider in config.providers}
    _names(config.models, problems)
    for index, model in enumerate(config.models):
        path: Path = ("models", index)
        if not model.backends and not problems.at((*path, "backends")):
            problems.add((*path, "backends"), "is empty; give at least one backend")
        for place, ref in enumerate(model.backends):
            _backend(model, ref, (*path, "backends", place), providers, problems)
        _twice(model, path, problems)
        _weights(model, path, problems)
        _order(model, path, problems)
        check_values(model.defaults.sampling, (*path, "defaults"), problems)
        check_values(model.overrides.sampling, (*path, "overrides"), problems)
        for group, fields in (("defaults", model.defaults), ("overrides", model.overrides)):
            _effort(fields, (*path, group, "reasoning_effort"), problems)
    _fallbacks(config.models, providers, problems)


def valid_name(name: str, *, wildcard: bool) -> bool:
    """Return whether a model may have this name. wildcard: it may end in `*`."""
    return bool(_NAME.fullmatch(name) or (wildcard and _WILDCARD.fullmatch(name)))


def matches(pattern: str, name: str) -> bool:
    """True if `name` is `pattern`, or starts with a `pattern` that ends in `*`."""
    return name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))


def check_model_patterns(
    patterns: Sequence[str], parent: Path, config: Config, problems: Problems
) -> None:
    """Check names of models, or prefixes with `*`, in the list at `parent` of a rule or a key."""
    names = [name for model in config.models for name in (model.name, *model.aliases)]
    if problems.under(("models",)) and "" in names:
        return
    for index, pattern in enumerate(patterns):
        path = (*parent, index)
        if pattern == "*" or problems.at(path):
            continue
        if "*" in pattern[:-1]:
            text = " contains a * before its end; * is a wildcard only at the end"
            problems.add(path, Found(pattern), text)
        elif not any(matches(pattern, name) or matches(name, pattern) for name in names):
            problems.add(path, "no model is named ", Found(pattern), nearest(pattern, names))


def _names(models: tuple[Model, ...], problems: Problems) -> None:
    taken: dict[str, str] = {}
    for path, name in _named(models):
        if problems.at(path) or not name:
            continue
        alias = "aliases" in path
        if not valid_name(name, wildcard=not alias):
            allowed = (
                "use letters, digits and . - _ / : @ +, with none of . - _ at the start or end"
            )
            wild = "" if alias else "; a * at the end is a wildcard"
            problems.add(path, Found(name), f" is not a valid model name; {allowed}{wild}")
        elif name in taken:
            problems.add(path, Found(name), f" is already {taken[name]}")
        else:
            owner = f"models[{path[1]}]"
            taken[name] = f"an alias of {owner}" if alias else f"the name of {owner}"


def _named(models: tuple[Model, ...]) -> Iterator[tuple[Path, str]]:
    for index, model in enumerate(models):
        yield ("models", index, "name"), model.name
    for index, model in enumerate(models):
        for place, alias in enumerate(model.aliases):
            yield ("models", index, "aliases", place), alias


def _backend(
    model: Model,
    ref: BackendRef,
    path: Path,
    providers: Mapping[str, Provider],
    problems: Problems,
) -> None:
    if ref.model == "*" and not model.name.endswith("*") and not problems.at((*path, "model")):
        problems.add(
            (*path, "model"),
            'is "*", which passes the requested name on; only models whose name ends in * allow it',
        )
    place = (*path, "provider")
    if problems.at(place) or problems.at(("providers",)) or "" in providers:
        return
    provider = providers.get(ref.provider)
    if provider is None:
        problems.add(
            place, "no provider is named ", Found(ref.provider), nearest(ref.provider, providers)
        )
    elif provider.adapter == LOCAL and provider.engine is not None and ref.model != "*":
        engine = provider.engine
        names = [served.name for served in (*engine.models, *engine.loras)]
        if (
            ref.model not in names
            and "" not in names
            and names
            and not problems.at((*path, "model"))
        ):
            problems.add(
                (*path, "model"),
                f"the engine of {ref.provider} has no model named ",
                Found(ref.model),
                nearest(ref.model, names),
            )


def _twice(model: Model, path: Path, problems: Problems) -> None:
    seen: dict[tuple[str, str], int] = {}
    for index, ref in enumerate(model.backends):
        place = (*path, "backends", index)
        first = seen.setdefault((ref.provider, ref.model), index)
        if first != index and not problems.under(place) and not problems.at(place):
            problems.add(place, f"is the same as backends[{first}]; remove one of them")


def _weights(model: Model, path: Path, problems: Problems) -> None:
    weights = [ref.weight for ref in model.backends]
    place = (*path, "backends")
    given = [weight for weight in weights if weight is not None]
    if not given or problems.under(place) or problems.at((*path, "policy")):
        return
    if model.policy == "in_order":
        problems.add(place, "weights have no effect under policy: in_order; remove them")
    elif len(given) < len(weights):
        lacking = ", ".join(f"[{index}]" for index, w in enumerate(weights) if w is None)
        problems.add(place, f"{lacking} has no weight, but others have one; give a weight to each")
    elif not any(given):
        problems.add(place, "all weights are 0, so no backend would get traffic; raise one")


def _order(model: Model, path: Path, problems: Problems) -> None:
    """Check pairs of fields of which one bounds the other."""
    pairs = (
        ("retry", "backoff_s", model.retry.backoff_s, "max_backoff_s", model.retry.max_backoff_s),
        (
            "breaker",
            "cooldown_s",
            model.breaker.cooldown_s,
            "max_cooldown_s",
            model.breaker.longest_s,
        ),
    )
    for group, low, least, high, most in pairs:
        place = (*path, group)
        if least > most and not problems.under(place):
            problems.add((*place, low), f"{least:g} is more than {high} ({most:g})")


def check_values(sampling: Sampling, path: Path, problems: Problems) -> None:
    """Check each number against the widest bounds of all APIs."""
    for name, bounds in RANGES.items():
        value: object = getattr(sampling, name)
        if value is UNSET or not isinstance(value, int | float) or problems.at((*path, name)):
            continue
        if not _inside(value, bounds):
            problems.add((*path, name), f"expected a number {_words(bounds)}, found ", Found(value))


def _effort(fields: RequestFields, path: Path, problems: Problems) -> None:
    effort = fields.reasoning_effort
    if isinstance(effort, str) and effort not in EFFORTS and (hint := nearest(effort, EFFORTS)):
        problems.warn(path, Found(effort), " is not a known level", hint)


def _inside(value: float, bounds: Range) -> bool:
    return (
        (bounds.minimum is None or value >= bounds.minimum)
        and (bounds.maximum is None or value <= bounds.maximum)
        and (bounds.above is None or value > bounds.above)
        and (bounds.below is None or value < bounds.below)
    )


def _words(bounds: Range) -> str:
    parts = (
        ("of at least", bounds.minimum),
        ("above", bounds.above),
        ("at most", bounds.maximum),
        ("below", bounds.below),
    )
    return ", ".join(f"{words} {_number(bound)}" for words, bound in parts if bound is not None)


def _number(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)


def _fallbacks(
    models: tuple[Model, ...], providers: Mapping[str, Provider], problems: Problems
) -> None:
    names = {model.name: model for model in models}
    aliases = {alias: model.name for model in models for alias in model.aliases}
    for index, model in enumerate(models):
        seen: set[str] = set()
        for place, name in enumerate(model.fallback):
            path: Path = ("models", index, "fallback", place)
            if problems.at(path) or "" in names:
                continue
            if name in aliases:
                problems.add(path, Found(name), f' is an alias; write "{aliases[name]}"')
            elif name not in names:
                others = [other for other in names if other != model.name]
                hint = _instead(name, providers) or nearest(name, others) or _NONE
                problems.add(path, "no model is named ", Found(name), hint)
            elif name in seen:
                problems.add(path, Found(name), " is named twice")
            seen.add(name)
    for index, circle in _circles(models, names):
        problems.add(("models", index, "fallback"), f"is circular: {' → '.join(circle)}")


_NONE = "; models has no other"


def _instead(name: str, providers: Mapping[str, Provider]) -> str:
    """The end of a sentence about a backend in place of a model; "" for anything else."""
    if name.partition("/")[0] not in providers:
        return ""
    return "; fallback lists models; add a backend to backends, with weight 0"


def _circles(
    models: tuple[Model, ...], names: Mapping[str, Model]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Find each circle once, at its first model in the file."""
    order = {model.name: index for index, model in enumerate(models)}
    for index, model in enumerate(models):
        trails: list[tuple[str, ...]] = [(model.name,)]
        visited: set[str] = set()
        while trails:
            trail = trails.pop()
            for name in names[trail[-1]].fallback:
                if name == model.name:
                    yield index, (*trail, name)
                    trails.clear()
                    break
                if name in names and name not in visited and order[name] > index:
                    visited.add(name)
                    trails.append((*trail, name))
