"""Cross-checks of `experiments`: models, backends and metrics exist and are comparable."""

from collections.abc import Iterable
from itertools import pairwise
from math import isclose

import msgspec

from strowger_gateway.gateway.config.adapter_names import WITHOUT_WIRE
from strowger_gateway.gateway.config.checks.known_prices import has_prices
from strowger_gateway.gateway.config.checks.models import check_values
from strowger_gateway.gateway.config.checks.routing import check_backend
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.experiment import Decide, Experiment, Variant
from strowger_gateway.gateway.statistics.metrics import BUILT_IN, COMMENT, COVARIATES
from strowger_gateway.schemas.close_names import close_names

ALIKE = 0.8
"""Similarity, 0 to 1, from which a name counts as a misspelt metric of the gateway."""

FOREIGN_METRIC_NAMES = {
    "error_rate": "error",
    "failure": "error",
    "failures": "error",
    "failure_rate": "error",
    "fallbacks": "fallback",
    "fallback_rate": "fallback",
    "voting_rate": "vote_rate",
    "latency": "latency_ms",
    "duration": "latency_ms",
    "duration_ms": "latency_ms",
    "ttft": "ttft_ms",
    "time_to_first_token": "ttft_ms",
    "first_token_ms": "ttft_ms",
    "tokens": "output_tokens",
    "tokens_out": "output_tokens",
    "completion_tokens": "output_tokens",
    "cost": "cost_usd",
    "costs": "cost_usd",
    "price": "cost_usd",
    "usd": "cost_usd",
}
"""Names that other programs use for our metrics."""


def check_experiments(config: Config, problems: Problems) -> None:
    names: dict[str, int] = {}
    models: dict[str, int] = {}
    for index, experiment in enumerate(config.experiments):
        path: Path = ("experiments", index)
        _once(names, experiment.name, "the name", index, (*path, "name"), problems)
        _model(experiment, models, index, config, problems)
        _variants(experiment, path, config, problems)
        _ramps(experiment, (*path, "variants"), problems)
        _standbys(experiment, config, path, problems)
        _unit(experiment, config, (*path, "assign_by"), problems)
        _replays(experiment, config, (*path, "replay_keys"), problems)
        _metric(experiment.primary, config, (*path, "primary"), problems)
        for place, harm_limit in enumerate(experiment.harm_limits):
            where: Path = (*path, "harm_limits", place, "metric")
            _metric(harm_limit.metric, config, where, problems)
            _alike_votes(harm_limit.metric, experiment, where, problems)
        if experiment.decide is not None:
            _decide(experiment, experiment.decide, (*path, "decide"), config, problems)
        if experiment.aa:
            _alike(experiment, path, problems)


def _decide(
    experiment: Experiment, decide: Decide, path: Path, config: Config, problems: Problems
) -> None:
    if experiment.aa and not problems.at(path):
        problems.add(
            path, "aa: true means that all variants are the same, so there is nothing to decide"
        )
    places: list[tuple[str, Path]] = [(decide.better, (*path, "better"))]
    for place, clause in enumerate(decide.not_worse):
        places.append((clause.metric, (*path, "not_worse", place, "metric")))
    seen: set[str] = set()
    for name, where in places:
        _metric(name, config, where, problems)
        _alike_votes(name, experiment, where, problems)
        if name in seen and not problems.at(where):
            problems.add(where, Found(name), " already has a clause; give one clause per metric")
        seen.add(name)


def _once(
    seen: dict[str, int], name: str, what: str, index: int, path: Path, problems: Problems
) -> None:
    first = seen.setdefault(name, index)
    if first != index and name and not problems.at(path):
        problems.add(path, Found(name), f" is already {what} of experiments[{first}]")


def _model(
    experiment: Experiment, models: dict[str, int], index: int, config: Config, problems: Problems
) -> None:
    path: Path = ("experiments", index, "model")
    names = {model.name for model in config.models}
    if problems.at(path) or problems.at(("models",)) or "" in names:
        return
    aliases = {alias: model.name for model in config.models for alias in model.aliases}
    name = experiment.model
    exact = sorted(one for one in names if not one.endswith("*"))
    if name in aliases and aliases[name] in exact:
        problems.add(path, Found(name), f' is an alias; write "{aliases[name]}"')
    elif name not in names:
        hint = (
            nearest(name, exact)
            or "; wildcards cannot have experiments, so add the model to models"
        )
        problems.add(path, "no model is named ", Found(name), hint)
    elif name.endswith("*"):
        problems.add(
            path,
            Found(name),
            " is a wildcard, which can be a different model in each request; add the model of "
            "the experiment to models under its own name",
        )
    else:
        _once(models, name, "the model", index, path, problems)


def _variants(experiment: Experiment, path: Path, config: Config, problems: Problems) -> None:
    variants: Path = (*path, "variants")
    if problems.at(variants):
        return
    if len(experiment.variants) < 2:
        problems.add(
            variants, "an experiment needs at least two variants; the first is the control"
        )
    providers = {provider.name: provider for provider in config.providers}
    seen: dict[str, int] = {}
    for place, variant in enumerate(experiment.variants):
        where: Path = (*variants, place)
        first = seen.setdefault(variant.name, place)
        if first != place and not problems.at((*where, "name")):
            problems.add(
                (*where, "name"), Found(variant.name), f" is already the name of variants[{first}]"
            )
        _backend(variant, (*where, "backend"), problems)
        check_backend(variant.backend, (*where, "backend"), providers, problems)
        check_values(variant.set.sampling, (*where, "set"), problems)
    weights = [variant.weight for variant in experiment.variants]
    if weights and not any(weights) and not problems.under(variants):
        problems.add(variants, "all weights are 0, so no unit can be assigned; raise one")
    _check_distinct(experiment, variants, problems)


def _backend(variant: Variant, path: Path, problems: Problems) -> None:
    if variant.backend.endswith("/*") and not problems.at(path):
        problems.add(
            path, Found(variant.backend), " does not name a model; write the model of this variant"
        )


def _check_distinct(experiment: Experiment, path: Path, problems: Problems) -> None:
    """Reject identical variants unless the experiment is marked as an A/A test."""
    if experiment.aa or problems.under(path):
        return
    seen: dict[bytes, int] = {}
    for place, variant in enumerate(experiment.variants):
        first = seen.setdefault(_changes(variant), place)
        if first != place:
            problems.add(
                (*path, place),
                f"is identical to variants[{first}]; for a test of the gateway itself set aa: true",
            )


def _alike(experiment: Experiment, path: Path, problems: Problems) -> None:
    for place, (one, other) in enumerate(pairwise(experiment.variants), 1):
        where: Path = (*path, "variants", place)
        if _changes(one) != _changes(other) and not problems.under(where):
            problems.add(
                where, "aa: true means that all variants are the same, but this one differs"
            )


def _changes(variant: Variant) -> bytes:
    return msgspec.json.encode((variant.backend, variant.set, variant.prompt_digest))


def _metric(name: str, config: Config, path: Path, problems: Problems) -> None:
    if problems.at(path):
        return
    if name == "cost_usd" and not has_prices(config) and not problems.at(("prices",)):
        problems.add(path, "is cost_usd, but prices is empty, so no cost is known; add prices")
    if name in BUILT_IN:
        return
    if name in COVARIATES:
        problems.add(
            path, Found(name), " is measured before a variant is chosen; it can be in adjust only"
        )
        return
    if name == COMMENT:
        problems.add(path, "a comment has no measurable value; name another metric")
    close = (
        [FOREIGN_METRIC_NAMES[name]] if name in FOREIGN_METRIC_NAMES else _nearly(name, BUILT_IN)
    )
    if close:
        problems.add(
            path,
            Found(name),
            f' is not a metric of the gateway; did you mean "{close[0]}"? A feedback metric needs '
            "a name that cannot be confused with it",
        )


def _alike_votes(name: str, experiment: Experiment, path: Path, problems: Problems) -> None:
    """Warn of two feedback metrics with nearly the same name."""
    primary = experiment.primary
    if name in BUILT_IN or name == primary:
        return
    if _nearly(name, {primary}.difference(BUILT_IN)):
        problems.warn(
            path,
            Found(name),
            " resembles ",
            Found(primary),
            ", the primary metric, but is a separate metric that needs its own feedback",
        )


def _ramps(experiment: Experiment, path: Path, problems: Problems) -> None:
    """Warn of weights that add up to 1 or 100, which suggests lowering one to raise another.

    Rendezvous hashing moves users only into the variant whose weight was raised, if the other
    weights stay the same.
    """
    weights = [variant.weight for variant in experiment.variants if variant.weight]
    if problems.under(path) or len(weights) < 3 or len(set(weights)) == 1:
        return
    if isclose(sum(weights), 100) or isclose(sum(weights), 1):
        problems.warn(
            path,
            f"the weights add up to {sum(weights):g}; to ramp one of several variants, raise its "
            "weight and keep the others, whatever the sum: if you lower the control's weight for "
            "it, users also move between variants with unchanged weights",
        )


def _standbys(experiment: Experiment, config: Config, path: Path, problems: Problems) -> None:
    """Warn if a fallback of a variant is another variant's backend under another name."""
    if problems.under(path) or problems.at(("providers",)):
        return
    servers = {
        one.name: (one.adapter, one.base_url or "")
        for one in config.providers
        if one.adapter not in WITHOUT_WIRE  # each provider has engines of its own
    }
    arms = {variant.backend for variant in experiment.variants}
    reached: dict[tuple[tuple[str, str], str], str] = {}
    for variant in experiment.variants:
        provider, _, name = variant.backend.partition("/")
        if provider in servers:
            reached.setdefault((servers[provider], name), variant.name)
    models = {model.name: model for model in config.models}
    own = models.get(experiment.model)
    for name in () if own is None else (own.name, *own.fallback):
        for backend in models[name].backends if name in models else ():
            where = f"{backend.provider}/{backend.model}"
            arm = reached.get((servers.get(backend.provider, ("", "")), backend.model))
            if arm is not None and where not in arms:
                problems.warn(
                    path,
                    Found(where),
                    f' of model "{name}" answers if a variant fails, and is the same server and '
                    f'model as variant "{arm}" under another name: responses of variant "{arm}" '
                    "would count for another variant",
                )


def _unit(experiment: Experiment, config: Config, path: Path, problems: Problems) -> None:
    if experiment.assign_by == "api_key" and config.auth.mode == "none":
        problems.warn(
            path, "with auth.mode none no request has a key, so the experiment would have no units"
        )


def _replays(experiment: Experiment, config: Config, path: Path, problems: Problems) -> None:
    if experiment.replay_keys and config.auth.mode == "none":
        problems.warn(
            path, "with auth.mode none no request has a key, so none may ask for a variant"
        )


def _nearly(name: str, known: Iterable[str]) -> list[str]:
    return close_names(name, known, alike=ALIKE)
