"""What the declared ranges of metrics cost, and narrower ones where they cost too much."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.report_input import harm_metrics, per_of, planned_pairs
from strowger_gateway.gateway.statistics.effects import Look
from strowger_gateway.gateway.statistics.metrics import Metric
from strowger_gateway.gateway.statistics.value_range import ValueRange, used_range
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.experiments.votes import Votes

SAID = 0.1
"""Share of an interval's width from which a report shows what the range costs."""


class RangeReport(Struct, frozen=True, kw_only=True):
    """What the declared range of a metric costs.

    cost:    share of the interval's width that is due to the declared range, 0 to 1.
    limit:   a round number, at least twice the farthest value seen.
    limited: the interval is that of the mean of values up to the limit.
    limited_cost: what the range would cost if it ended at the limit.
    """

    cost: float
    limit: float
    limited: bool
    limited_cost: float


def used_ranges(
    experiment: Experiment,
    store: Store,
    metrics: Sequence[Metric],
    feedback: Mapping[str, Votes],
) -> Mapping[str, ValueRange]:
    """Return the ranges of numbers whose declared range is wider than their values need.

    Blocks. Raises StoreUnavailable.
    """
    variants = [variant.name for variant in experiment.variants]
    among = len(variants) - 1
    look = Look(alpha=experiment.alpha / among, planned=planned_pairs(experiment), among=among)
    found: dict[str, ValueRange] = {}
    for metric in metrics:
        contract, votes = experiment.contract(metric.name), feedback.get(metric.name)
        if contract is None or contract.type != "number" or votes is None or not metric.bounds:
            continue
        used = used_range(
            store.outcomes(experiment.name, metric.name, per=per_of(experiment, metric)),
            control=variants[0],
            treatments=variants[1:],
            look=look,
            declared=metric.bounds,
            seen=(votes.least, votes.greatest),
        )
        if used is not None:
            found[metric.name] = used
    return found


def ranged_harm_metrics(experiment: Experiment, store: Store) -> tuple[Metric, ...]:
    """Return the metrics of harm limits with the bounds that their intervals use.

    Blocks. Raises StoreUnavailable.
    """
    metrics = harm_metrics(experiment, store)
    if not any(experiment.contract(metric.name) for metric in metrics):
        return metrics
    feedback = store.metrics(experiment.name)
    return with_ranges(metrics, used_ranges(experiment, store, metrics, feedback))


def with_ranges(metrics: Sequence[Metric], ranges: Mapping[str, ValueRange]) -> tuple[Metric, ...]:
    """Return the metrics with the bounds that their intervals use."""
    return tuple(
        replace(metric, bounds=ranges[metric.name].bounds) if metric.name in ranges else metric
        for metric in metrics
    )


def range_report(used: ValueRange | None) -> RangeReport | None:
    """Return what a report shows of a range; `None` if it costs little."""
    if used is None or used.cost < SAID:
        return None
    return RangeReport(
        cost=used.cost,
        limit=used.limit,
        limited=used.limited,
        limited_cost=used.limited_cost,
    )


def range_words(metric: str, declared: tuple[float, float], found: RangeReport) -> str:
    """Describe the cost of a range, in a sentence without a full stop."""
    low, high = declared
    costs = (
        f"{metric}: the range {low:g} to {high:g} costs {100 * found.cost:.0f} % of the interval's "
        f"width; a cap at {found.limit:g} would cost {100 * found.limited_cost:.0f} %"
    )
    if not found.limited:
        return costs
    return (
        f"{costs}. The interval is therefore that of the mean of values up to {found.limit:g}, at "
        "least twice the farthest value so far; greater ones would count as that"
    )
