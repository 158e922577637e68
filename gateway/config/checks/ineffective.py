"""Warnings of valid settings that probably do not have the intended effect."""

from collections.abc import Mapping

from strowger_gateway.gateway.config.adapter_names import Defaults
from strowger_gateway.gateway.config.problems import Path, Problems
from strowger_gateway.gateway.config.schema.config import Config, Model, Provider
from strowger_gateway.gateway.config.schema.connection import STREAM_S, Timeouts
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.statistics.metrics import BUILT_IN

LARGEST_PART = 5.0
"""A relative difference of a time; a larger one was probably meant as milliseconds or per cent."""


def warn_ineffective(config: Config, problems: Problems, adapters: Mapping[str, Defaults]) -> None:
    models = {model.name: model for model in config.models}
    if config.auth.mode == "none":
        _keyless_pools(config, problems)
    for index, provider in enumerate(config.providers):
        _first_byte(provider.timeouts, ("providers", index, "timeouts", "first_byte_s"), problems)
    _unsent_checks(config, problems)
    for index, model in enumerate(config.models):
        path: Path = ("models", index)
        _attempts(model, models, path, problems)
        _hedging(model, path, problems)
        _recovery(model, path, problems)
        _continuing(model, models, config, adapters, path, problems)
        _slow_rate(model, path, problems)
    for index, experiment in enumerate(config.experiments):
        path = ("experiments", index)
        _bounds(experiment, path, problems)
        model = models.get(experiment.model)
        if model is not None:
            _alone(experiment, model, models, path, problems)


def _keyless_pools(config: Config, problems: Problems) -> None:
    for index, provider in enumerate(config.providers):
        pool = provider.pool
        if pool is None:
            continue
        for field, by in (("session", pool.session), ("fairness", pool.fairness)):
            if by in ("caller", "api_key", "team"):
                problems.warn(
                    ("providers", index, "pool", field),
                    "with auth.mode none no request has a key, so the header is never sent",
                )


def _first_byte(timeouts: Timeouts, path: Path, problems: Problems) -> None:
    first_s, total_s = timeouts.first_byte_s, timeouts.total_s
    if first_s is not None and total_s is not None and first_s >= total_s:
        problems.warn(path, f"has no effect: it is not less than total_s ({total_s:g})")


def _unsent_checks(config: Config, problems: Problems) -> None:
    """Warn of health checks that have no backend."""
    served = {f"{ref.provider}/{ref.model}" for one in config.models for ref in one.backends}
    served |= {name for one in config.models for rule in one.when for name in rule.backends}
    served |= {variant.backend for one in config.experiments for variant in one.variants}
    for index, provider in enumerate(config.providers):
        check = provider.health_check
        if check is None:
            continue
        names = {name.partition("/")[2] for name in served if name.startswith(f"{provider.name}/")}
        place: Path = ("providers", index, "health_check")
        if not names:
            problems.warn(place, "has no effect: no model has a backend of this provider")
        elif check.request is not None and names == {"*"}:
            problems.warn(
                (*place, "request"),
                "has no effect: the provider has wildcards only, which get no requests; give path",
            )


def _attempts(model: Model, models: Mapping[str, Model], path: Path, problems: Problems) -> None:
    """Warn if the attempts do not reach the end of a chain: each backend takes one."""
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
        f"{attempts} {'attempt is' if attempts == 1 else 'attempts are'} shared by all backends "
        f"and fallbacks, so {last} is only used while others are unavailable; set at least "
        f"{ahead + 1}",
    )


def _hedging(model: Model, path: Path, problems: Problems) -> None:
    place = (*path, "hedge_after_s")
    if model.hedge_after_s is None or problems.under((*path, "backends")):
        return
    if len(model.backends) < 2 and not model.fallback and not model.when:
        problems.warn(place, "has no effect: the model has one backend and no fallback")
    elif model.retry.attempts < 2:
        problems.warn(
            place, "has no effect: a hedge is an attempt, and retry.attempts is 1; set at least 2"
        )
    elif model.hedge_after_s >= (deadline_s := model.deadline_s or STREAM_S):
        problems.warn(place, f"has no effect: it is not less than deadline_s ({deadline_s:g})")


def _recovery(model: Model, path: Path, problems: Problems) -> None:
    place = (*path, "stream_recovery")
    if model.stream_recovery == "error":
        return
    if model.retry.attempts < 2:
        problems.warn(
            place,
            "has no effect: a continuation is an attempt, and retry.attempts is 1; set at least 2",
        )
    elif not {"broken_stream", "timeout", "server_error"} & set(model.retry.on):
        problems.warn(
            place,
            "has no effect: retry.on has none of broken_stream, timeout and server_error, the "
            "failures that end a stream",
        )


def _continuing(
    model: Model,
    models: Mapping[str, Model],
    config: Config,
    adapters: Mapping[str, Defaults],
    path: Path,
    problems: Problems,
) -> None:
    """Warn if no backend can continue a chat that broke off."""
    if model.stream_recovery != "continue" or problems.under((*path, "backends")):
        return
    chain = (model, *(models[name] for name in model.fallback if name in models))
    used = {ref.provider for one in chain for ref in one.backends}
    providers = [one for one in config.providers if one.name in used]
    if providers and all(_never_continues(one, adapters) for one in providers):
        names = ", ".join(one.name for one in providers)
        problems.warn(
            (*path, "stream_recovery"),
            f"has no effect on chats: it is not known how {names} would continue one; set "
            "providers[].continues, which `strowger models --probe` finds, or use restart",
        )


def _never_continues(provider: Provider, adapters: Mapping[str, Defaults]) -> bool:
    """Whether a provider of OpenAI's dialect has no form of continuing an answer."""
    if provider.continues == "no":
        return True
    defaults = adapters.get(provider.adapter)
    known = provider.continues is not None or provider.tokenizer is not None
    return defaults is not None and defaults.continues and not known


def _slow_rate(model: Model, path: Path, problems: Problems) -> None:
    if model.breaker.slow_s is None and model.breaker.slow_rate != BreakerRule().slow_rate:
        problems.warn((*path, "breaker", "slow_rate"), "has no effect without slow_s")


def _bounds(experiment: Experiment, path: Path, problems: Problems) -> None:
    """Warn of differences that no data can show."""
    for place, harm_limit in enumerate(experiment.harm_limits):
        where = (*path, "harm_limits", place, "worse_by")
        _bound(harm_limit.metric, harm_limit.worse_by, where, problems)
    if experiment.smallest is not None:
        _bound(experiment.primary, experiment.smallest, (*path, "smallest"), problems)


def _bound(name: str, value: float, path: Path, problems: Problems) -> None:
    metric = BUILT_IN.get(name)
    if metric is None:
        return
    if metric.bounds is not None and value >= 1:
        problems.warn(
            path,
            f"{value:g} is impossible: shares of requests differ by less than 1; 0.02 means 2 %",
        )
    elif metric.scale == "log" and value >= LARGEST_PART:
        problems.warn(
            path, f"{value:g} is relative to {name} and means {value:,.0%}; 0.2 means 20 % slower"
        )


def _alone(
    experiment: Experiment,
    model: Model,
    models: Mapping[str, Model],
    path: Path,
    problems: Problems,
) -> None:
    """Warn if every backend belongs to a variant: variants do not answer for each other."""
    arms = {variant.backend for variant in experiment.variants}
    models_tried = (model, *(models[name] for name in model.fallback if name in models))
    backends = {f"{ref.provider}/{ref.model}" for one in models_tried for ref in one.backends}
    if len(backends) > 1 and backends <= arms:
        problems.warn(
            (*path, "model"),
            "every backend of the model and of its fallbacks belongs to a variant, and variants do "
            "not answer for each other, so a failing variant has no fallback; give the model "
            "another backend, at weight 0, or a fallback",
        )
