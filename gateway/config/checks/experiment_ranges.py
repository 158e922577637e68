"""Warn of metrics whose declared range is too wide for what their experiment wants to find."""

from collections.abc import Iterator
from math import floor, log10, sqrt

from strowger_gateway.gateway.config.problems import Found, Path, Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.config.schema.metric import MetricContract
from strowger_gateway.gateway.statistics.confidence_sequence import tuned, two_sided
from strowger_gateway.gateway.statistics.value_range import range_alone

PART = 0.01
"""Share of the range that matters where the experiment does not say what does."""


def check_ranges(config: Config, problems: Problems) -> None:
    """Warn if a range alone, at the planned sample, is wider than a difference that matters."""
    if problems.under(("metrics",)):
        return
    contracts = {one.name: one for one in config.metrics if one.type == "number"}
    for index, experiment in enumerate(config.experiments):
        path: Path = ("experiments", index)
        if problems.under(path) or len(experiment.variants) < 2:
            continue
        for where, metric, matters in _deciding(experiment):
            contract = contracts.get(metric)
            if contract is not None:
                _check(experiment, contract, matters, (*path, *where), problems)


def _deciding(experiment: Experiment) -> Iterator[tuple[Path, str, float | None]]:
    """Yield where each metric is named, and the difference that matters; `None`: not given."""
    yield ("primary",), experiment.primary, experiment.smallest
    if experiment.decide is not None:
        for place, clause in enumerate(experiment.decide.not_worse):
            yield ("decide", "not_worse", place, "metric"), clause.metric, clause.by


def _check(
    experiment: Experiment,
    contract: MetricContract,
    matters: float | None,
    path: Path,
    problems: Problems,
) -> None:
    low, high = contract.bounds
    width = (high if contract.cap is None else contract.cap) - low
    each = experiment.planned / len(experiment.variants)
    alpha = experiment.alpha / (len(experiment.variants) - 1)
    time = each / 2
    reach = two_sided(time, tuned(time / 2, alpha), alpha) / sqrt(time)
    alone, wanted = range_alone(width, reach, each), PART * width if matters is None else matters
    if alone <= wanted:
        return
    size = f"{PART:.0%} of the range" if matters is None else f"{matters:g}, which matters here"
    cap = low + _round_down(wanted / 2 * width / alone)
    problems.warn(
        path,
        Found(contract.name),
        f" takes numbers over a range of {width:g}, which alone makes intervals ±{alone:.2g} wide "
        f"after the planned {each:,.0f} units per variant: more than {size}. Declare a narrower "
        f"range, or a cap of at most {cap:g}",
    )


def _round_down(value: float) -> float:
    """Return the greatest of 1, 2 and 5 times a power of ten that is at most the value."""
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (5.0, 2.0, 1.0) if step * power <= value * (1 + 1e-12))
