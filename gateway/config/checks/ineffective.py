"""Warnings of settings that can be served and hardly do what whoever wrote them meant."""

from collections.abc import Mapping

from gateway.config.problems import Path, Problems
from gateway.config.schema import Config, Model
from gateway.config.schema_experiment import Experiment
from gateway.experiments.statistics.metrics import BUILT_IN

LARGEST_PART = 5.0
"""Of a time, five times as much again; more was meant as milliseconds or per cent."""


def warn_ineffective(config: Config, problems: Problems) -> None:
    models = {model.name: model for model in config.models}
    for index, model in enumerate(config.models):
        path: Path = ("models", index)
        _attempts(model, models, path, problems)
        _hedging(model, path, problems)
    for index, experiment in enumerate(config.experiments):
        path = ("experiments", index)
        _bounds(experiment, path, problems)
        model = models.get(experiment.model)
        if model is not None:
            _alone(experiment, model, models, path, problems)


def _attempts(model: Model, models: Mapping[str, Model], path: Path, problems: Problems) -> None:
    """Each backend is an attempt, so the last in a chain may have none left."""
    place = (*path, "retry", "attempts")
    attempts = model.retry.attempts
    before = [model, *(models[name] for name in model.fallback[:-1] if name in models)]
    ahead = sum(len(one.backends) for one in before)
    if model.fallback and attempts <= ahead:
        last = f'fallback "{model.fallback[-1]}"'
    elif model.policy == "in_order" and attempts < len(model.backends):
        last, ahead = f"backends[{len(model.backends) - 1}]", len(model.backends) - 1
    elif model.fallback_by_error and attempts < 2:
        last, ahead = "fallback_by_error", 1
    else:
        return
    problems.warn(
        place,
        f"is {attempts}, over all backends and fallbacks, so {last} is reached only while others "
        f"before it rest; give at least {ahead + 1}",
    )


def _hedging(model: Model, path: Path, problems: Problems) -> None:
    place = (*path, "hedge_after_s")
    if model.hedge_after_s is None or problems.under((*path, "backends")):
        return
    if len(model.backends) < 2 and not model.fallback and not model.when:
        problems.warn(
            place, "the model has one backend and no fallback, so there is no next to ask"
        )
    elif model.retry.attempts < 2:
        problems.warn(place, "retry.attempts is 1, and a hedge is an attempt; give at least 2")
    elif model.hedge_after_s >= model.deadline_s:
        problems.warn(place, f"is not before deadline_s, {model.deadline_s:g}, when all is over")


def _bounds(experiment: Experiment, path: Path, problems: Problems) -> None:
    """Differences that no data could show."""
    for place, guardrail in enumerate(experiment.guardrails):
        where = (*path, "guardrails", place, "worse_by")
        _bound(guardrail.metric, guardrail.worse_by, where, problems)
    if experiment.smallest is not None:
        _bound(experiment.primary, experiment.smallest, (*path, "smallest"), problems)


def _bound(name: str, value: float, path: Path, problems: Problems) -> None:
    metric = BUILT_IN.get(name)
    if metric is None:
        return
    if metric.bounds is not None and value >= 1:
        problems.warn(
            path, f"is {value:g}, and no share of requests differs by so much; 0.02 is 2 of 100"
        )
    elif metric.scale == "log" and value >= LARGEST_PART:
        problems.warn(
            path, f"is {value:g}, which of {name} is a part: {value:,.0%}; 0.2 is 20 % slower"
        )


def _alone(
    experiment: Experiment,
    model: Model,
    models: Mapping[str, Model],
    path: Path,
    problems: Problems,
) -> None:
    """Backends that answered for each other do so no more when each is an arm's."""
    arms = {variant.backend for variant in experiment.variants}
    asked = (model, *(models[name] for name in model.fallback if name in models))
    backends = {f"{ref.provider}/{ref.model}" for one in asked for ref in one.backends}
    if len(backends) > 1 and backends <= arms:
        problems.warn(
            (*path, "model"),
            "each of its backends, and of its fallbacks', is a variant's, and variants do not "
            "answer for each other, so nobody answers for one that fails; give the model another "
            "backend, at weight 0, or a fallback",
        )
