"""The experiments section: the verdict, the interval over time, and the numbers."""

from collections.abc import Callable
from functools import partial

from markupsafe import Markup

from strowger_gateway.gateway.console.admin.page.formatting import NONE, count, number, share, span
from strowger_gateway.gateway.console.admin.page.interval_chart import draw_intervals
from strowger_gateway.gateway.console.admin.request_log.links import requests_link
from strowger_gateway.gateway.experiments.arm_report import ArmReport
from strowger_gateway.gateway.experiments.contract_report import declared
from strowger_gateway.gateway.experiments.decision_report import ClauseReport
from strowger_gateway.gateway.experiments.history import ExperimentHistory, Track
from strowger_gateway.gateway.experiments.metric_report import Measured, MetricReport
from strowger_gateway.gateway.experiments.report import (
    Report,
    adjusted,
    alarms,
    doubts,
)
from strowger_gateway.gateway.experiments.trust_report import ResponseReport
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.gateway.statistics.formatting import figure, signed
from strowger_gateway.gateway.statistics.metrics import VOTE_RATE

say = words_of(__file__)

_SECTION = say.template("""
<section id="experiments" data-live aria-labelledby="h-experiments">
<h2 id="h-experiments">[[Experiments]]</h2>
{away}
{experiments}
{removed}
</section>
""")
_AWAY = say.template(
    """<p class="verdict warn">[[Store unreachable; showing the last known state: {}.]]</p>"""
)
_NONE = Markup('<section id="experiments" data-live></section>')
_EXPERIMENT = say.template("""
<div class="card table experiment">
<header><h3>{name}</h3><p class="facts">{facts}</p></header>
{paused}
{alarms}
<p class="verdict {tone}">{sentence}.</p>
{conditions}
{plot}
<table>
<thead><tr><th scope="col">[[Variant]]</th><th scope="col">[[Backend]]</th><th
 scope="col">[[Weight]]</th>
<th scope="col">[[Units]]</th><th scope="col">[[Requests]]</th><th
 scope="col">[[Fallback]]</th></tr></thead>
<tbody>{arms}</tbody>
</table>
<table>
<thead><tr><th scope="col">[[Metric]]</th><th scope="col">[[Variant]]</th><th
 scope="col">[[Mean]]</th>
<th scope="col">[[Control&rsquo;s]]</th><th scope="col">[[Difference]]</th><th
 scope="col">[[Interval]]</th>
</tr></thead>
<tbody>{metrics}</tbody>
</table>
{notes}
</div>
""")
_REMOVED = say.template("""
<div class="card list removed">
<h3>[[Removed from the configuration]]</h3>
{rows}
</div>
""")
_OVER = Markup("""
<details id="over-{name}"><summary>
<span class="model">{name}</span>
<span class="says">{sentence}</span>
<time class="took">{ended}</time>
</summary>
{card}
</details>
""")
_PAUSED = say.template(
    """<p class="verdict warn">[[Paused: {}. The control serves all requests.]]</p>"""
)
_ALARM = Markup('<p class="verdict bad">{}.</p>')
_CONDITION = Markup("<li>{}.</li>")
_CONDITIONS = Markup('<ul class="conditions">{}</ul>')
_NOTES = Markup('<ul class="conditions notes">{}</ul>')
_LINK = Markup('<a href="{}">{}</a>')
_ARM = say.template("""<tr>
<th scope="row">{name}</th>
<td data-label="[[Backend]]">{backend}</td>
<td data-label="[[Weight]]" class="n">{weight}</td>
<td data-label="[[Units]]" class="n">{units}</td>
<td data-label="[[Requests]]" class="n">{requests}</td>
<td data-label="[[Fallback]]" class="n">{fallbacks}</td>
</tr>""")
_METRIC = say.template("""<tr>
<th scope="row">{metric}</th>
<td data-label="[[Variant]]">{variant}</td>
<td data-label="[[Mean]]" class="n">{mean}</td>
<td data-label="[[Control&rsquo;s]]" class="n">{control}</td>
<td data-label="[[Difference]]" class="n">{difference}</td>
<td data-label="[[Interval]]" class="n">{interval}</td>
</tr>""")
_MISSING = Markup('<span class="missing">{}</span>')
_WAITING = say.template(
    """<p class="empty">[[No interval yet: too few units in both variants.]]</p>"""
)
_TONES = {"ship": "good", "better": "good", "undecided": "", "alike": ""}


def experiments_section(past: ExperimentHistory, now: float) -> Markup:
    """Render the section; it is empty without experiments and without a problem to report.

    now: Unix seconds.
    """
    if not past.tracks and not past.removed and not past.unavailable:
        return _NONE
    removed = Markup().join(_removed_experiment(track, now) for track in past.removed.values())
    return _SECTION.format(
        away=_AWAY.format(past.unavailable) if past.unavailable else Markup(),
        experiments=Markup().join(_experiment(track, now) for track in past.tracks.values()),
        removed=_REMOVED.format(rows=removed) if removed else Markup(),
    )


def _removed_experiment(track: Track, now: float) -> Markup:
    report = track.report
    return _OVER.format(
        name=report.experiment,
        sentence=report.sentence,
        ended=_since(report, now),
        card=_experiment(track, now),
    )


def _since(report: Report, now: float) -> str:
    """How long ago the last request of the experiment was answered."""
    return (
        ""
        if report.last_request is None
        else say("{time} ago", time=span(now - report.last_request))
    )


def _experiment(track: Track, now: float) -> Markup:
    report = track.report
    facts = [
        say("on {model}", model=report.model),
        say("by {unit}", unit=report.assign_by),
        say("epoch {number}", number=report.epoch),
    ]
    if report.removed:
        facts.append(say("removed from the configuration"))
        facts += [say("last request {ago}", ago=_since(report, now))] if report.last_request else []
    if report.aa:
        facts.append(say("A/A test"))
    if report.excluded:
        facts.append(say("{count} requests excluded", count=count(report.excluded)))
    paused = report.paused and not report.removed
    clauses = [
        _CONDITION.format(f"{decision.variant}, {_clause_mark(clause)}: {clause.sentence}")
        for decision in report.decisions
        for clause in decision.clauses
    ]
    conditions = clauses + [_CONDITION.format(sentence) for sentence in report.harm_limits]
    conditions += [_CONDITION.format(guard.sentence) for guard in report.guards]
    sentences = (
        *declared(report),
        *adjusted(report),
        *doubts(report),
        *filter(None, map(_rates, report.responses)),
    )
    notes = [_CONDITION.format(note) for note in sentences]
    return _EXPERIMENT.format(
        name=report.experiment,
        facts=" · ".join(facts),
        paused=_PAUSED.format(report.reason) if paused else Markup(),
        alarms=Markup().join(map(_ALARM.format, alarms(report))),
        tone=_TONES.get(report.kind, "bad"),
        sentence=report.sentence,
        conditions=_CONDITIONS.format(Markup().join(conditions)) if conditions else Markup(),
        plot=_plot(track, now),
        arms=Markup().join(_arm(arm, report.experiment) for arm in report.arms),
        metrics=Markup().join(
            _metric(metric, metric.variants[0], one)
            for metric in report.metrics
            if _is_shown(metric)
            for one in metric.variants[1:]
        ),
        notes=_NOTES.format(Markup().join(notes)) if notes else Markup(),
    )


def _rates(one: ResponseReport) -> str:
    if one.rate is None or one.control is None:
        return ""
    return say(
        "votes per request on {metric}: {rate} of {variant}, {control} of control",
        metric=one.metric,
        rate=figure(one.rate, ".3g"),
        variant=one.variant,
        control=figure(one.control, ".3g"),
    )


def _clause_mark(clause: ClauseReport) -> str:
    if clause.holds:
        return say("met")
    return say("not met") if clause.refuted else say("undecided")


def _is_shown(metric: MetricReport) -> bool:
    """False for built-in metrics without values, such as costs without prices."""
    wanted = metric.primary or metric.worse_by is not None
    if metric.name == VOTE_RATE:
        return wanted or any(one.mean for one in metric.variants)
    return wanted or not all(one.blank for one in metric.variants)


def _plot(track: Track, now: float) -> Markup:
    primary = next((metric for metric in track.report.metrics if metric.primary), None)
    if primary is None or not track.points:
        return _WAITING.format()
    return draw_intervals(
        f"x-{track.report.experiment}",
        primary.name,
        say("difference from control, higher is better")
        if primary.better == "higher"
        else say("difference from control, lower is better"),
        track.points,
        [one.variant for one in primary.variants[1:]],
        says=_says(primary),
        ago=say("{time} ago", time=span(now - track.points[0].time)),
        until=say("{time} ago", time=span(now - track.points[-1].time))
        if track.report.removed
        else say("now"),
    )


def _arm(arm: ArmReport, experiment: str) -> Markup:
    found = requests_link(experiment=experiment, variant=arm.name)
    return _ARM.format(
        name=arm.name,
        backend=f"{arm.backend}, {arm.prompt}" if arm.prompt else arm.backend,
        weight=number(arm.weight),
        units=count(arm.units),
        requests=_LINK.format(found, count(arm.requests)),
        fallbacks=share(arm.fallbacks, arm.requests),
    )


def _metric(metric: MetricReport, control: Measured, one: Measured) -> Markup:
    says = _says(metric)
    interval: str | Markup = _MISSING.format(one.missing) if one.missing else NONE
    if one.low is not None and one.high is not None:
        interval = say("{low} to {high}", low=says(one.low), high=says(one.high))
    return _METRIC.format(
        metric=say("{metric} (primary)", metric=metric.name) if metric.primary else metric.name,
        variant=one.variant,
        mean=_mean(one),
        control=_mean(control),
        difference=NONE if one.difference is None else says(one.difference),
        interval=interval,
    )


def _mean(one: Measured) -> str:
    return NONE if one.mean is None else figure(one.mean, ",.4g")


def _says(metric: MetricReport) -> Callable[[float], str]:
    """Formatter for differences: always signed, in per cent if relative."""
    return partial(signed, relative=metric.relative)
