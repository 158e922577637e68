"""Report an experiment's results so far, in numbers and sentences."""

from collections.abc import Sequence

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.adjustment.report import (
    differing,
)
from strowger_gateway.gateway.experiments.adjustment.results import (
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
from strowger_gateway.gateway.experiments.metric_report import MetricReport, metric_report
from strowger_gateway.gateway.experiments.plans.changes import plan_changes
from strowger_gateway.gateway.experiments.report_input import (
    metrics_of,
    per_of,
    planned_pairs,
    report_input,
)
from strowger_gateway.gateway.experiments.trust.exclusions import (
    ExclusionReport,
    exclusion_reports,
)
from strowger_gateway.gateway.experiments.trust.key_shares import (
    KeyShare,
    key_notes,
    key_shares,
)
from strowger_gateway.gateway.experiments.trust.pause_votes import (
    NO_VOTES,
    pause_notes,
    votes_after_pauses,
)
from strowger_gateway.gateway.experiments.trust.value_ranges import used_ranges, with_ranges
from strowger_gateway.gateway.experiments.trust_report import (
    ResponseReport,
    responses_of,
)
from strowger_gateway.gateway.statistics.outcomes import Per
from strowger_gateway.gateway.statistics.verdict import Kind, Verdict, verdict_of
from strowger_gateway.gateway.storage.sql.base import Pause, Store
from strowger_gateway.gateway.storage.sql.experiments.late_votes import VotesAfterPause


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
    plan_changed: settings that were changed after the start, in words; "" if none was.
    differing: covariates of metrics that the verdict depends on, and that differ between variants.
    guards:    what watches the variants now; none while it is paused.
    keys:      the API keys with most units of each variant, most first.
    exclusions: units and keys that operators have excluded; no other number contains them.
    after_pause: votes on requests from before a pause that came or changed after it began.
    notes:     on the experiment as a whole, in words.
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
    keys: tuple[KeyShare, ...] = ()
    exclusions: tuple[ExclusionReport, ...] = ()
    after_pause: VotesAfterPause = NO_VOTES
    notes: tuple[str, ...] = ()
    removed: bool = False
    last_request: float | None = None
    adjust: tuple[str, ...] = ()
    baseline_epochs: tuple[int, ...] = ()
    differing: tuple[str, ...] = ()
    plan_changed: str = ""


def report_of(experiment: Experiment, store: Store, *, removed: bool = False) -> Report:
    """Build the report of one experiment; blocks while it reads the store.

    removed: the experiment is no longer in the configuration. Raises StoreUnavailable.
    """
    feedback = store.metrics(experiment.name)
    declared = metrics_of(experiment, feedback)
    ranges = used_ranges(experiment, store, declared, feedback)
    metrics = with_ranges(declared, ranges)
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
    keys = key_shares(store, experiment)
    exclusions = exclusion_reports(store, experiment.name)
    after_pause = votes_after_pauses(store, experiment.name, epochs, pause)
    baseline = baseline_epochs(epochs)
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
            metric_report(experiment, store, one, case, feedback, by_metric, ranges)
            for one in metrics
        ),
        decisions=tuple(map(decision_report, verdict.decisions)),
        responses=responses_of(experiment, store, case.planned),
        guards=() if removed else guards_of(experiment, store, case, epochs),
        keys=keys,
        exclusions=exclusions,
        after_pause=after_pause,
        notes=_notes(experiment, keys, exclusions, after_pause),
        removed=removed,
        last_request=max((row.last for row in answered), default=0.0) or None,
        adjust=experiment.adjust,
        baseline_epochs=baseline if experiment.adjust else (),
        plan_changed=plan_changes(experiment, store, answered, baseline),
        differing=differing(adjustments, case.control, experiment.deciding),
    )


def alarms(report: Report) -> tuple[str, ...]:
    """Return what stands above the verdict, as sentences without a full stop."""
    responses = (one.sentence for one in report.responses if one.sentence)
    return (*filter(None, (report.plan_changed,)), *responses, *report.differing)


def _notes(
    experiment: Experiment,
    keys: Sequence[KeyShare],
    exclusions: Sequence[ExclusionReport],
    after_pause: VotesAfterPause,
) -> tuple[str, ...]:
    excluded = (one.sentence for one in exclusions)
    return (*excluded, *key_notes(experiment, keys), *pause_notes(after_pause))


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
    """Return the notes on the experiment, and on the metrics that a verdict or harm limit uses."""
    deciding = {clause.metric for decision in report.decisions for clause in decision.clauses}
    of_metrics = (
        note
        for metric in report.metrics
        if metric.primary or metric.worse_by is not None or metric.name in deciding
        for one in metric.variants
        for note in one.notes
    )
    return (*report.notes, *of_metrics)


def adjusted(report: Report) -> tuple[str, ...]:
    """Return a sentence without a full stop for each adjusted difference.

    Of the metrics that the verdict depends on, also why one is not adjusted.
    """
    deciding = {clause.metric for decision in report.decisions for clause in decision.clauses}
    return tuple(
        sentence
        for metric in report.metrics
        if metric.adjustment is not None
        and (metric.adjustment.used or metric.primary or metric.name in deciding)
        for sentence in metric.adjustment.sentences
    )
