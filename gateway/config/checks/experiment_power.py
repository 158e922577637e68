"""Warnings about experiments that can see no harm, or decide nothing, with the units they have."""

from collections.abc import Iterator
from math import log1p, sqrt

from strowger_gateway.gateway.config.problems import Path, Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.statistics import normal
from strowger_gateway.gateway.statistics.looks import alpha
from strowger_gateway.gateway.statistics.metrics import BUILT_IN
from strowger_gateway.gateway.statistics.randomization import fewest_units
from strowger_gateway.gateway.statistics.sample_size import plan, plan_clause

HOPELESS = 0.2
"""Power at the planned size below which a difference is warned of."""

WANTED = 0.8
"""Power for which the warning says how many units are needed."""

CALM_FAILURES = sqrt(0.01 * 0.99)
CALM_VOTES = sqrt(0.1 * 0.9)
CALM_TIMES = 0.3
"""Standard deviations of a unit's value that are favourable for an experiment: 1 % of requests
fail, 10 % of votes are yes, and most times are within a factor of 1.35 of the mean."""


def check_experiment_power(config: Config, problems: Problems) -> None:
    """Warn of harm limits and decisions that the weights, the keys or `planned` make blind."""
    for index, experiment in enumerate(config.experiments):
        path: Path = ("experiments", index)
        if not problems.under(path):
            _harm_limits(experiment, len(config.auth.keys), path, problems)
            _decisions(experiment, path, problems)


def needed_for_harm(control: float, treatment: float) -> int:
    """Return how many active units of two variants show that all requests of one fail.

    control, treatment: their weights, above 0.
    """
    return fewest_units(treatment / (control + treatment), alpha(0, 1))


def _harm_limits(experiment: Experiment, keys: int, path: Path, problems: Problems) -> None:
    """Warn of harm limits below their number of units. keys: those of the file; 0: all issued."""
    weights = [variant.weight for variant in experiment.variants]
    by_key = experiment.assign_by == "api_key"
    units = keys if by_key and keys else experiment.planned
    if not experiment.harm_limits or not weights[0]:
        return
    for variant in experiment.variants[1:]:
        if not variant.weight:
            continue
        needed = needed_for_harm(weights[0], variant.weight)
        active = units * (weights[0] + variant.weight) / sum(weights)
        if active < needed:
            have = f"{units:,} planned units"
            if by_key and keys:
                have = f"the {keys} key{'s' if keys > 1 else ''} of auth.keys"
            rest = "only its circuit does" if experiment.circuit_rule else "and circuit is off"
            problems.warn(
                (*path, "harm_limits"),
                f"cannot see harm by {variant.name} with {have}: at weights {weights[0]:g} to"
                f" {variant.weight:g}, even if all its requests fail, about {needed:,} active units"
                f" of both show it; {rest}. Give it a larger weight, or assign by what there is"
                " more of",
            )


def _decisions(experiment: Experiment, path: Path, problems: Problems) -> None:
    """Warn of differences that the planned units find in few cases, at these weights."""
    shares = [variant.weight for variant in experiment.variants if variant.weight]
    if experiment.adjust or len(shares) < 2 or not experiment.control.weight:
        return  # an adjustment takes off a part of the variance that is not known yet
    for what, metric, by, sides in _differences(experiment):
        sd = _calm(experiment, metric)
        if sd is None:
            continue
        needed = _units(by, sd, sides, experiment.alpha, shares)
        if needed is None or _power(needed, experiment.planned) >= HOPELESS:
            continue
        even = _units(by, sd, sides, experiment.alpha, [1.0] * len(shares))
        equal = f" with equal weights {even[1]:,}." if even is not None else ""
        problems.warn(
            (*path, "planned"),
            f"{experiment.planned:,} units decide nothing about {what}, at weights"
            f" {' to '.join(f'{share:g}' for share in shares)}: with one value of each, at least"
            f" {needed[1]:,} are needed;{equal} Raise the smaller weight before then, or plan"
            " for more units (`strowger experiments plan`)",
        )


def _differences(experiment: Experiment) -> Iterator[tuple[str, str, float, int]]:
    """Yield what is to be shown: in words, the metric, the difference, and the sides of a test."""
    decide = experiment.decide
    if decide is not None:
        for clause in decide.not_worse:
            what = f"{clause.metric} being worse by {clause.by:g}"
            yield what, clause.metric, _on_scale(clause.metric, clause.by), 1
    elif experiment.smallest is not None and not experiment.aa:
        what = f"{experiment.primary} differing by {experiment.smallest:g}"
        by = _on_scale(experiment.primary, experiment.smallest)
        yield what, experiment.primary, by, 2


def _on_scale(name: str, by: float) -> float:
    metric = BUILT_IN.get(name)
    return log1p(by) if metric is not None and metric.scale == "log" else by


def _calm(experiment: Experiment, name: str) -> float | None:
    """Return a favourable standard deviation; `None`: the scale is not known in advance."""
    metric = BUILT_IN.get(name)
    if metric is not None and metric.scale == "log":
        return CALM_TIMES
    if metric is not None:
        return CALM_FAILURES if metric.is_rate and metric.better == "lower" else None
    contract = experiment.contract(name)
    return CALM_VOTES if contract is None or contract.type == "boolean" else None


def _units(
    by: float, sd: float, sides: int, alpha: float, shares: list[float]
) -> tuple[int, int] | None:
    """Return the units that show it with power 0.5, and with WANTED; `None`: beyond all numbers."""
    try:
        half, wanted = (
            plan(baseline=0.0, lift=by, alpha=alpha, power=power, shares=shares, sd=sd)
            if sides == 2
            else plan_clause(
                baseline=0.0,
                apart=by,
                better=False,
                alpha=alpha,
                power=power,
                shares=shares,
                sd=sd,
            )
            for power in (0.5, WANTED)
        )
    except ValueError:
        return None
    return half.total, wanted.total


def _power(needed: tuple[int, int], units: int) -> float:
    """Return the power with that many units. needed: as from `_units`.

    The quantile of the power is linear in the root of the units (`sample_size.plan`).
    """
    half, wanted = map(sqrt, needed)
    if wanted <= half:
        return 1.0 if units >= needed[1] else 0.0
    return normal.cdf(normal.inv_cdf(WANTED) * (sqrt(units) - half) / (wanted - half))
