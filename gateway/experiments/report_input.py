"""Build the input of a verdict from an experiment's configuration and its outcomes in the store."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.statistics.decision import Clause
from strowger_gateway.gateway.statistics.metrics import BUILT_IN, Metric
from strowger_gateway.gateway.statistics.outcomes import Per
from strowger_gateway.gateway.statistics.verdict import AdjustedOutcomes, HarmBound, ReportInput
from strowger_gateway.gateway.storage.sql.base import Epoch, Store
from strowger_gateway.gateway.storage.sql.experiments.votes import Votes

UNDECLARED = (0.0, 1.0)
"""The range of a feedback metric that decides an experiment and has no contract."""


def metrics_of(experiment: Experiment, feedback: Mapping[str, Votes]) -> tuple[Metric, ...]:
    """Return the metrics: the primary, the guarded, the built-in, and those with feedback."""
    names = [experiment.primary, *(harm_limit.metric for harm_limit in experiment.harm_limits)]
    names += [name for name, _ in clauses_of(experiment)]
    return tuple(
        metric_of(experiment, name, feedback.get(name))
        for name in dict.fromkeys([*names, *BUILT_IN, *sorted(feedback)])
    )


def clauses_of(experiment: Experiment) -> tuple[tuple[str, float | None], ...]:
    """Return the decision's clauses: a metric, and how much worse it may be; `None`: better."""
    decide = experiment.decide
    if decide is None:
        return ()
    return ((decide.better, None), *((one.metric, one.by) for one in decide.not_worse))


def report_input(
    experiment: Experiment,
    store: Store,
    metrics: Iterable[Metric],
    *,
    split: bool = True,
    adjusted: Mapping[str, AdjustedOutcomes] = {},
    stopped: str = "",
) -> ReportInput:
    """Read the input from the store; blocks.

    metrics: whose outcomes to read. split: also read the unit counts. adjusted, stopped: as in
    ReportInput.
    Raises StoreUnavailable.
    """
    named = {metric.name: metric for metric in metrics}
    return ReportInput(
        control=experiment.control.name,
        treatments=tuple(variant.name for variant in experiment.variants[1:]),
        primary=named.get(experiment.primary) or metric_of(experiment, experiment.primary, None),
        outcomes={
            name: store.outcomes(experiment.name, name, per=per_of(experiment, metric))
            for name, metric in named.items()
        },
        adjusted=adjusted,
        stopped=stopped,
        counts=store.counts(experiment.name) if split else (),
        harm_limits=tuple(
            HarmBound(metric=named[harm_limit.metric], worse_by=harm_limit.worse_by)
            for harm_limit in experiment.harm_limits
            if harm_limit.metric in named
        ),
        decide=_decision(experiment, named),
        alpha=experiment.alpha,
        planned=planned_pairs(experiment),
        smallest=experiment.smallest,
        aa=experiment.aa,
        resumed=resumed(store.epochs(experiment.name)),
    )


def _decision(experiment: Experiment, named: Mapping[str, Metric]) -> tuple[Clause, ...]:
    """Return the clauses; () if the outcomes of one of their metrics are not read."""
    clauses = clauses_of(experiment)
    if any(name not in named for name, _ in clauses):
        return ()
    return tuple(Clause(metric=named[name], by=by) for name, by in clauses)


def resumed(epochs: Sequence[Epoch]) -> int:
    """Return the number of the last paused epoch that was resumed; 0: none."""
    over = (one.number for one, after in pairwise(epochs) if one.paused and not after.paused)
    return max(over, default=0)


def harm_metrics(experiment: Experiment, store: Store) -> tuple[Metric, ...]:
    feedback = store.metrics(experiment.name)
    names = dict.fromkeys(harm_limit.metric for harm_limit in experiment.harm_limits)
    return tuple(metric_of(experiment, name, feedback.get(name)) for name in names)


def metric_of(experiment: Experiment, name: str, votes: Votes | None) -> Metric:
    """Return the definition of a metric.

    votes: those in the store; `None` without any, and for built-in metrics. If a vote is outside
    the bounds, the metric has none, and the observed range is used.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    contract = experiment.contract(name)
    bounds = bounds_of(experiment, name)
    if bounds is None and votes is not None and votes.boolean:
        bounds = UNDECLARED
    return Metric(
        name=name,
        better="lower" if contract is not None and contract.higher_is == "worse" else "higher",
        bounds=bounds if outside(experiment, name, votes) is None else None,
        per="unit" if contract is not None and contract.level == "unit" else "observation",
    )


def per_of(experiment: Experiment, metric: Metric) -> Per:
    """Return what the metric's mean is over; a contract per unit overrides the experiment."""
    return "unit" if metric.per == "unit" else experiment.per


def bounds_of(experiment: Experiment, name: str) -> tuple[float, float] | None:
    """Return the bounds of accepted votes, as they count; `None`: unbounded."""
    contract = experiment.contract(name)
    if contract is None:
        return UNDECLARED if experiment.decided_by(name) else None
    low, high = contract.bounds
    return (low, high) if contract.cap is None else (low, contract.cap)


def outside(experiment: Experiment, name: str, votes: Votes | None) -> tuple[float, float] | None:
    """Return the least and greatest vote if one is out of bounds: it came before the contract."""
    bounds = bounds_of(experiment, name)
    if bounds is None or votes is None:
        return None
    inside = bounds[0] <= votes.least and votes.greatest <= bounds[1]
    return None if inside else (votes.least, votes.greatest)


def planned_pairs(experiment: Experiment) -> float:
    """Return n1 n0 / (n1 + n0) of two arms in half of the planned sample, all arms even.

    The weights are ignored: they change over a ramp, and because of its results, but the intervals
    must be tuned before the data are seen. Half of the sample, because an interval tuned too early
    costs less than one tuned too late: with even arms 1 % of width at the planned sample,
    with 90 to 10 next to nothing, with 95 to 5 4 %, with 99 to 1 a third.
    """
    return experiment.planned / (4 * len(experiment.variants))
