"""Cross-checks of `experiments`: what an experiment names must exist, and be comparable."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import pairwise
from math import isclose

import msgspec

from gateway.config.checks.models import check_values
from gateway.config.checks.routing import check_backend
from gateway.config.problems import Found, Path, Problems, nearest
from gateway.config.schema import Config
from gateway.config.schema_experiment import Decide, Experiment, Variant
from gateway.experiments.statistics.metrics import BUILT_IN, COMMENT

ALIKE = 0.8
"""A name so near to one of our own metrics is taken for a slip of the keys."""

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
"""What other programs call our own metrics."""


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
        _metric(experiment.primary, config, (*path, "primary"), problems)
        for place, guardrail in enumerate(experiment.guardrails):
            where: Path = (*path, "guardrails", place, "metric")
            _metric(guardrail.metric, config, where, problems)
            _alike_votes(guardrail.metric, experiment, where, problems)
        if experiment.decide is not None:
            _decide(experiment, experiment.decide, (*path, "decide"), config, problems)
        if experiment.aa:
            _alike(experiment, path, problems)


def _decide(
    experiment: Experiment, decide: Decide, path: Path, config: Config, problems: Problems
) -> None:
    if experiment.aa and not problems.at(path):
        problems.add(path, "aa: true says that all variants are the same, so there is no decision")
    places: list[tuple[str, Path]] = [(decide.better, (*path, "better"))]
    for place, clause in enumerate(decide.not_worse):
        places.append((clause.metric, (*path, "not_worse", place, "metric")))
    seen: set[str] = set()
    for name, where in places:
        _metric(name, config, where, problems)
        _alike_votes(name, experiment, where, problems)
        if name in seen and not problems.at(where):
            problems.add(where, Found(name), " has a clause already; one metric has one clause")
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
        hint = nearest(name, exact) or "; wildcards have no experiments, so give models one"
        problems.add(path, "no model is named ", Found(name), hint)
    elif name.endswith("*"):
        problems.add(
            path,
            Found(name),
            " is a wildcard, which means a different model with each request; give the model of "
            "the experiment a name of its own in models",
        )
    else:
        _once(models, name, "the model", index, path, problems)


def _variants(experiment: Experiment, path: Path, config: Config, problems: Problems) -> None:
    variants: Path = (*path, "variants")
    if problems.at(variants):
        return
    if len(experiment.variants) < 2:
        problems.add(variants, "an experiment compares at least two; the first is the control")
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
        problems.add(variants, "all weights are 0, so nobody could be assigned; raise one")
    _check_distinct(experiment, variants, problems)


def _backend(variant: Variant, path: Path, problems: Problems) -> None:
    if variant.backend.endswith("/*") and not problems.at(path):
        problems.add(
            path, Found(variant.backend), " names no model; write the one that this variant gets"
        )


def _check_distinct(experiment: Experiment, path: Path, problems: Problems) -> None:
    """Two variants that are the same are an A/A test, and must say so."""
    if experiment.aa or problems.under(path):
        return
    seen: dict[bytes, int] = {}
    for place, variant in enumerate(experiment.variants):
        first = seen.setdefault(_changes(variant), place)
        if first != place:
            problems.add(
                (*path, place),
                f"changes nothing that variants[{first}] does not; for a test of the gateway "
                "itself say aa: true",
            )


def _alike(experiment: Experiment, path: Path, problems: Problems) -> None:
    for place, (one, other) in enumerate(pairwise(experiment.variants), 1):
        where: Path = (*path, "variants", place)
        if _changes(one) != _changes(other) and not problems.under(where):
            problems.add(where, "aa: true says that all variants are the same, and this one is not")


def _changes(variant: Variant) -> bytes:
    return msgspec.json.encode((variant.backend, variant.set))


def _metric(name: str, config: Config, path: Path, problems: Problems) -> None:
    if problems.at(path):
        return
    if name == "cost_usd" and not config.prices and not problems.at(("prices",)):
        problems.add(path, "is cost_usd, and prices is empty, so that no cost is known; fill it")
    if name in BUILT_IN:
        return
    if name == COMMENT:
        problems.add(path, "a comment has no value that could be measured; name another metric")
    close = (
        [FOREIGN_METRIC_NAMES[name]] if name in FOREIGN_METRIC_NAMES else _nearly(name, BUILT_IN)
    )
    if close:
        problems.add(
            path,
            Found(name),
            f' is no metric of the gateway; did you mean "{close[0]}"? Feedback needs a name that '
            "cannot be taken for it",
        )


def _alike_votes(name: str, experiment: Experiment, path: Path, problems: Problems) -> None:
    """Two names of feedback that differ by a letter may be meant for one."""
    primary = experiment.primary
    if name in BUILT_IN or name == primary:
        return
    if _nearly(name, {primary}.difference(BUILT_IN)):
        problems.warn(
            path,
            Found(name),
            " is nearly ",
            Found(primary),
            ", the primary metric; it is a metric of its own, for which votes of its own must come",
        )


def _ramps(experiment: Experiment, path: Path, problems: Problems) -> None:
    """Rendezvous hashing moves users into the variant whose weight was raised alone."""
    weights = [variant.weight for variant in experiment.variants if variant.weight]
    if problems.under(path) or len(weights) < 3 or len(set(weights)) == 1:
        return
    if isclose(sum(weights), 100) or isclose(sum(weights), 1):
        problems.warn(
            path,
            f"the weights add up to {sum(weights):g}; to ramp one of several variants, raise its "
            "weight and leave the others, whatever the sum: where control's is lowered for it, "
            "users also move between variants whose weights stay",
        )


def _standbys(experiment: Experiment, config: Config, path: Path, problems: Problems) -> None:
    """A backend that answers when an arm fails must not be another arm under another name."""
    if problems.under(path) or problems.at(("providers",)):
        return
    servers = {
        one.name: (one.adapter, one.base_url or "")
        for one in config.providers
        if one.engine is None  # each provider with an engine has its own
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
                    f' of model "{name}" answers when an arm fails, and is the server and model of '
                    f'variant "{arm}" under another name: answers of that arm would count for '
                    "another",
                )


def _unit(experiment: Experiment, config: Config, path: Path, problems: Problems) -> None:
    if experiment.assign_by == "api_key" and config.auth.mode == "none":
        problems.warn(path, "with auth.mode none no request has a key, so nobody would take part")


def _nearly(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, list(known), n=1, cutoff=ALIKE)
