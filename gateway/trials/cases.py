"""From an experiment's configuration and its outcomes in the store to what can be judged."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from gateway.config.experiment import Experiment
from gateway.experiments.decision import Clause
from gateway.experiments.metrics import BUILT_IN, Metric, metric_named
from gateway.experiments.verdict import Case, Guard
from gateway.store.base import Epoch, Store


def metrics_of(experiment: Experiment, store: Store) -> tuple[Metric, ...]:
    """The primary one, then the guarded ones, the gateway's own, and what feedback came."""
    feedback = store.metrics(experiment.name)
    names = [experiment.primary, *(guardrail.metric for guardrail in experiment.guardrails)]
    names += [name for name, _ in clauses_of(experiment)]
    return tuple(
        metric_named(name, boolean=feedback.get(name, False))
        for name in dict.fromkeys([*names, *BUILT_IN, *sorted(feedback)])
    )


def clauses_of(experiment: Experiment) -> tuple[tuple[str, float | None], ...]:
    """Of the decision, in order: a metric, and how much worse it may be; `None`: must be better."""
    decide = experiment.decide
    if decide is None:
        return ()
    return ((decide.better, None), *((one.metric, one.by) for one in decide.not_worse))


def case_of(
    experiment: Experiment, store: Store, metrics: Iterable[Metric], *, split: bool = True
) -> Case:
    """The case as the store has it now. metrics: whose outcomes to read. split: and the counts."""
    named = {metric.name: metric for metric in metrics}
    return Case(
        control=experiment.control.name,
        treatments=tuple(variant.name for variant in experiment.variants[1:]),
        primary=named.get(experiment.primary) or metric_named(experiment.primary),
        outcomes={
            name: store.outcomes(experiment.name, name, per=experiment.per) for name in named
        },
        counts=store.counts(experiment.name) if split else (),
        guards=tuple(
            Guard(metric=named[guardrail.metric], worse_by=guardrail.worse_by)
            for guardrail in experiment.guardrails
            if guardrail.metric in named
        ),
        decide=_decision(experiment, named),
        alpha=experiment.alpha,
        planned=planned_pairs(experiment),
        smallest=experiment.smallest,
        aa=experiment.aa,
        resumed=resumed(store.epochs(experiment.name)),
    )


def _decision(experiment: Experiment, named: Mapping[str, Metric]) -> tuple[Clause, ...]:
    """Nothing where the outcomes of one of its metrics are not read."""
    clauses = clauses_of(experiment)
    if any(name not in named for name, _ in clauses):
        return ()
    return tuple(Clause(metric=named[name], by=by) for name, by in clauses)


def resumed(epochs: Sequence[Epoch]) -> int:
    """The number of the last epoch that was a pause and is over; 0: none."""
    over = (one.number for one, after in pairwise(epochs) if one.paused and not after.paused)
    return max(over, default=0)


def guarded_metrics(experiment: Experiment, store: Store) -> tuple[Metric, ...]:
    feedback = store.metrics(experiment.name)
    return tuple(
        metric_named(guardrail.metric, boolean=feedback.get(guardrail.metric, False))
        for guardrail in experiment.guardrails
    )


def planned_pairs(experiment: Experiment) -> float:
    """n1 n0 / (n1 + n0) of two arms in half of the planned sample, all arms even.

    Whatever the weights are: they change over a ramp, and because of what it shows, and what tunes
    the intervals must be fixed before the data. It is half of the sample because an interval tuned
    too early costs less than one tuned too late: with even arms 1 % of width at the planned sample,
    with 90 to 10 next to nothing, with 95 to 5 4 %, with 99 to 1 a third.
    """
    return experiment.planned / (4 * len(experiment.variants))
