"""Report an experiment's results so far, in numbers and sentences."""

from collections.abc import Sequence
from math import isfinite

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.config.schema.metric import MetricContract
from strowger_gateway.gateway.experiments.adjustment.report import (
    AdjustmentReport,
    Unadjusted,
    adjustment_report,
    differing,
    unadjusted,
)
from strowger_gateway.gateway.experiments.adjustment.results import (
    Adjustment,
    adjustments_of,
    baseline_epochs,
)
from strowger_gateway.gateway.experiments.arm_report import ArmReport, arm_reports
from strowger_gateway.gateway.experiments.decision_report import (
    DecisionReport,
    decision_report,
)
from strowger_gateway.gateway.experiments.guarding.guard_report import (
    GuardReport,
    guards_of,
    stop_of,
)
from strowger_gateway.gateway.experiments.report_input import (
    metrics_of,
    outside,
    per_of,
    planned_pairs,
    report_input,
)
from strowger_gateway.gateway.experiments.trust.capped_units import CappedUnit, capped_units
from strowger_gateway.gateway.experiments.trust_report import (
    ResponseReport,
    largest_share,
    notes_of,
    responses_of,
)
from strowger_gateway.gateway.statistics.effects import (
    FEWEST_EFFECTIVE,
    FEWEST_UNITS,
    Effect,
)
from strowger_gateway.gateway.statistics.metrics import BUILT_IN, Metric
from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes, Per
from strowger_gateway.gateway.statistics.verdict import (
    Kind,
    ReportInput,
    Verdict,
    verdict_of,
)
from strowger_gateway.gateway.storage.sql.base import Pause, Store
from strowger_gateway.gateway.storage.sql.experiments.votes import Votes


class Measured(Struct, frozen=True, kw_only=True):
    """A metric of one variant, with the difference to control; `None` for control itself.

    units:        with an observation; a unit that returns in a later epoch counts again.
    mean:         by the units' weights; the geometric mean for times. `None`: no observation yet.
    difference:   within epochs, so not always that of the means; for times relative, 0.1 = 10 %.
    low, high:    its interval, valid at every look; `None` until there are enough data.
    missing:      what is missing for an interval, in words; "" if there is one.
    largest_share: share of the observations from the unit with the most in one epoch, 0 to 1.
    capped_units: units that weigh less than they sent, because none may weigh more than 1/50 of a
                  variant. capped: the busiest of them.
    excluded_epochs: epochs excluded from the difference, because an arm has too few units.
    notes:        notes on these numbers, in words.
    unadjusted:   the difference without the adjustment; `None` if there is none.
    """

    variant: str
    units: int
    observations: int
    mean: float | None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    missing: str = ""
    largest_share: float = 0.0
    capped_units: int = 0
    capped: tuple[CappedUnit, ...] = ()
    excluded_epochs: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    unadjusted: Unadjusted | None = None

    @property
    def blank(self) -> bool:
        """True if there is no observation yet."""
        return not self.observations


class MetricReport(Struct, frozen=True, kw_only=True):
    """A metric of all variants. relative: differences are relative. worse_by: its harm limit's.

    contract: from `metrics` in the configuration; `None` for built-in metrics, or without one.
    capped:   votes that count as the contract's cap.
    outside:  the least and greatest vote, if one is outside the metric's range because it came
              before the contract. The interval is then wide.
    adjustment: `None` if the experiment does not adjust.
    """

    name: str
    primary: bool
    better: str
    relative: bool
    variants: tuple[Measured, ...]
    worse_by: float | None = None
    contract: MetricContract | None = None
    capped: int = 0
    outside: tuple[float, float] | None = None
    adjustment: AdjustmentReport | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """A verdict on the primary metric.

    more_units: approximate number until a verdict; `None`: no end in sight.
    """

    variant: str
    finding: str
    more_units: int | None
    sentence: str


class Report(Struct, frozen=True, kw_only=True):
    """The report of one experiment.

    sentence:  the verdict. excluded: requests without a unit, or that could not be enrolled.
    removed:   it is no longer in the configuration. last_request: Unix seconds, `None`: unknown.
    mismatch:  units are not split by the weights; nothing else in the report can be trusted.
    responses: of the feedback metrics that the verdict depends on.
    adjust:    the covariates, as configured. baseline_epochs: which `past` is from.
    differing: covariates of metrics that the verdict depends on, and that differ between variants.
    guards:    what watches the variants now; none while it is paused.
    """

    experiment: str
    model: str
    assign_by: str
    aa: bool
    paused: bool
    reason: str
    epoch: int
    kind: Kind
    sentence: str
    mismatch: bool
    split_p: float
    excluded: int
    arms: tuple[ArmReport, ...]
    findings: tuple[Finding, ...]
    harm_limits: tuple[str, ...]
    metrics: tuple[MetricReport, ...]
    decisions: tuple[DecisionReport, ...] = ()
    responses: tuple[ResponseReport, ...] = ()
    guards: tuple[GuardReport, ...] = ()
    removed: bool = False
    last_request: float | None = None
    adjust: tuple[str, ...] = ()
    baseline_epochs: tuple[int, ...] = ()
    differing: tuple[str, ...] = ()


def report_of(experiment: Experiment, store: Store, *, removed: bool = False) -> Report:
    """Build the report of one experiment; blocks while it reads the store.

    removed: the experiment is no longer in the configuration. Raises StoreUnavailable.
    """
    feedback = store.metrics(experiment.name)
    metrics = metrics_of(experiment, feedback)
    per: dict[str, Per] = {one.name: per_of(experiment, one) for one in metrics}
    adjustments = adjustments_of(experiment, store, metrics, per, planned_pairs(experiment))
    adjusted = {one.metric.name: one.used for one in adjustments if one.used is not None}
    pause: Pause | None = store.pauses().get(experiment.name)
    stopped = stop_of(store, experiment.name, pause)
    case = report_input(experiment, store, metrics, adjusted=adjusted, stopped=stopped)
    by_metric = {one.metric.name: one for one in adjustments}
    verdict = verdict_of(case)
    epochs = store.epochs(experiment.name)
    answered = store.request_counts(experiment.name)
    return Report(
        experiment=experiment.name,
        model=experiment.model,
        assign_by=experiment.assign_by,
        aa=experiment.aa,
        paused=pause is not None,
        reason="" if pause is None else pause.reason,
        epoch=epochs[-1].number if epochs else 0,
        kind=verdict.kind,
        sentence=verdict.sentence,
        mismatch=verdict.ratio.mismatch,
        split_p=verdict.ratio.p,
        excluded=sum(row.requests for row in answered if not row.variant),
        arms=arm_reports(experiment, case.counts, answered),
        findings=_findings(verdict),
        harm_limits=tuple(harm_limit.sentence for harm_limit in verdict.harm_limits),
        metrics=tuple(
            _metric(
                experiment,
                store,
                metric,
                case,
                feedback.get(metric.name),
                by_metric.get(metric.name),
            )
            for metric in metrics
        ),
        decisions=tuple(map(decision_report, verdict.decisions)),
        responses=responses_of(experiment, store, case.planned),
        guards=() if removed else guards_of(experiment, store, case, epochs),
        removed=removed,
        last_request=max((row.last for row in answered), default=0.0) or None,
        adjust=experiment.adjust,
        baseline_epochs=baseline_epochs(epochs) if experiment.adjust else (),
        differing=differing(adjustments, case.control, experiment.deciding),
    )


def alarms(report: Report) -> tuple[str, ...]:
    """Return what stands above the verdict, as sentences without a full stop."""
    responses = (one.sentence for one in report.responses if one.sentence)
    return (*responses, *report.differing)


def _findings(verdict: Verdict) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            variant=arm.treatment,
            finding=arm.finding,
            more_units=arm.more_units,
            sentence=arm.sentence,
        )
        for arm in verdict.arms
    )


def doubts(report: Report) -> tuple[str, ...]:
    """Return the notes on the metrics that the verdict or a harm limit depends on."""
    deciding = {clause.metric for decision in report.decisions for clause in decision.clauses}
    return tuple(
        note
        for metric in report.metrics
        if metric.primary or metric.worse_by is not None or metric.name in deciding
        for one in metric.variants
        for note in one.notes
    )


def adjusted(report: Report) -> tuple[str, ...]:
    """Return a sentence without a full stop for each adjusted difference, or why there is none.

    Metrics without a value are left out.
    """
    return tuple(
        sentence
        for metric in report.metrics
        if metric.adjustment is not None and not all(one.blank for one in metric.variants)
        for sentence in metric.adjustment.sentences
    )


def _metric(
    experiment: Experiment,
    store: Store,
    metric: Metric,
    case: ReportInput,
    votes: Votes | None,
    adjustment: Adjustment | None,
) -> MetricReport:
    outcomes = case.outcomes[metric.name]
    limits = [one.worse_by for one in experiment.harm_limits if one.metric == metric.name]
    return MetricReport(
        name=metric.name,
        primary=metric.name == experiment.primary,
        better=metric.better,
        relative=metric.scale == "log",
        worse_by=min(limits) if limits else None,
        contract=experiment.contract(metric.name),
        capped=0 if votes is None else votes.capped,
        outside=outside(experiment, metric.name, votes),
        variants=tuple(
            _measured(
                variant.name,
                metric,
                outcomes,
                case,
                capped=_capped(experiment, store, metric, outcomes, variant.name),
            )
            for variant in experiment.variants
        ),
        adjustment=None if adjustment is None else adjustment_report(adjustment, case),
    )


def _capped(
    experiment: Experiment, store: Store, metric: Metric, outcomes: Outcomes, variant: str
) -> tuple[CappedUnit, ...]:
    if per_of(experiment, metric) == "unit":
        return ()
    cells = [cell for cell in outcomes.cells if cell.variant == variant]
    return capped_units(store, experiment.name, metric.name, cells)


def _measured(
    variant: str,
    metric: Metric,
    outcomes: Outcomes,
    case: ReportInput,
    *,
    capped: tuple[CappedUnit, ...],
) -> Measured:
    cells = [cell for cell in outcomes.cells if cell.variant == variant]
    alone = Measured(
        variant=variant,
        units=sum(cell.units for cell in cells),
        observations=round(sum(cell.observed for cell in cells)),
        mean=_mean(cells, metric),
        largest_share=largest_share(cells),
        capped_units=sum(cell.capped for cell in cells) if capped else 0,
        capped=capped,
        notes=tuple(notes_of(metric.name, variant, cells, None, capped)),
    )
    noun = "values" if metric.name in BUILT_IN else "votes"
    if variant == case.control:
        missing = f"no {noun} yet" if alone.blank else ""
        return msgspec.structs.replace(alone, missing=missing)
    found = case.effect_of(metric, variant)
    return msgspec.structs.replace(
        alone,
        difference=metric.effect(found.difference) if found.pairs else None,
        low=_bound(metric, found.low),
        high=_bound(metric, found.high),
        p=found.p if found.known else None,
        missing=_missing(alone, found, outcomes, case, noun),
        excluded_epochs=found.excluded_epochs,
        notes=tuple(notes_of(metric.name, variant, cells, found, capped)),
        unadjusted=unadjusted(metric, case, variant, found),
    )


def _missing(
    alone: Measured, found: Effect, outcomes: Outcomes, case: ReportInput, noun: str
) -> str:
    """Say what is missing for an interval. noun: the word for the metric's observations."""
    if alone.blank:
        return f"no {noun} yet"
    if not any(cell.variant == case.control for cell in outcomes.cells):
        return f"no {noun} for {case.control} yet"
    if not found.pairs:
        return f"fewer than {FEWEST_UNITS} units of each arm"
    if found.effective < FEWEST_EFFECTIVE:
        return "too few units for an interval"
    return "" if found.known else "all values are the same"


def _bound(metric: Metric, difference: float) -> float | None:
    """Return a bound for display; `None` if there is none yet, or it overflows."""
    shown = metric.effect(difference)
    return shown if isfinite(difference) and isfinite(shown) else None


def _mean(cells: Sequence[Cell], metric: Metric) -> float | None:
    count = sum(cell.count for cell in cells)
    return metric.shown(sum(cell.total for cell in cells) / count) if count else None
