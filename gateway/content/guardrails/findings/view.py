"""The view of findings: what is configured, counts by rule and by time, and the last requests."""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup

from strowger_gateway.gateway.content.guardrails.findings.answer import (
    FindingsAsked,
    FindingsStep,
    GuardrailFindings,
    ListedFinding,
    RuleCount,
)
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

_SECTION: Final = say.template("""
<section id="findings" aria-label="[[Findings]]">
{notes}
<form class="row filters" method="get" action="/admin/view/guardrails">
<label>[[Since]] <input name="since" value="{since}" maxlength="64" autocomplete="off"></label>
<label>[[Guardrail]] <select name="guardrail">{rails}</select></label>
<label>[[Action]] <select name="action">{actions}</select></label>
<label>[[Model]] <input name="model" value="{model}" maxlength="256" autocomplete="off"></label>
<label>[[Key]] <input name="key" value="{key}" maxlength="256" autocomplete="off"></label>
<button class="primary">[[Show]]</button>
</form>
<h2>[[By rule]]</h2>
<div class="card table plain">{rules}</div>
<h2>[[By time]]</h2>
<ol class="timeline card about">{steps}</ol>
<h2>[[Requests with findings]]</h2>
<div class="card table plain">{requests}</div>
</section>
""")
_RULES: Final = say.template("""<table>
<thead><tr><th scope="col">[[Guardrail]]</th><th scope="col">[[Rule]]</th>
<th scope="col">[[Action]]</th><th scope="col" class="n">[[Requests]]</th>
<th scope="col">[[Last]]</th></tr></thead><tbody>{rows}</tbody></table>""")
_RULE: Final = say.template("""<tr><th scope="row">{guardrail}</th>
<td data-label="[[Rule]]"><a href="/admin/view/guardrails?{query}">{rule}</a></td>
<td data-label="[[Action]]"><span class="state {tone}">{action}</span></td>
<td class="n" data-label="[[Requests]]">{requests}</td>
<td data-label="[[Last]]">{last}</td></tr>""")
_REQUESTS: Final = say.template("""<table>
<thead><tr><th scope="col">[[Request]]</th><th scope="col">[[When]]</th>
<th scope="col">[[Findings]]</th><th scope="col">[[Model]]</th><th scope="col">[[Key]]</th>
<th scope="col">[[Team]]</th><th scope="col">[[Status]]</th></tr></thead>
<tbody>{rows}</tbody></table>""")
_REQUEST: Final = say.template("""<tr>
<th scope="row"><a href="/admin/view/requests?{query}">{id}</a></th>
<td data-label="[[When]]">{when}</td>
<td data-label="[[Findings]]">{findings}</td>
<td data-label="[[Model]]">{model}</td>
<td data-label="[[Key]]">{key}</td>
<td data-label="[[Team]]">{team}</td>
<td data-label="[[Status]]">{status}</td></tr>""")
_STEP: Final = Markup("""<li><span class="label">{label}</span>
<svg class="bars" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
<rect width="{width}" height="10" class="{tone}"/></svg><span class="n">{count}</span></li>""")
_FINDING: Final = Markup('<span class="tag {tone}">{text}</span> ')
_TIME: Final = Markup('<time datetime="{iso}">{text}</time>')
_EMPTY: Final = Markup('<p class="empty">{}</p>')
_WARNING: Final = Markup('<p class="verdict warn">{}</p>')
_QUIET: Final = Markup('<p class="quiet">{}</p>')
_OPTION: Final = Markup('<option value="{}"{}>{}</option>')
_SELECTED: Final = Markup(" selected")
_TONES: Final = {
    sentence("block"): "bad",
    sentence("mask"): "warn",
    sentence("monitor"): "",
    sentence("failed"): "bad",
}


def sections(found: GuardrailFindings, asked: FindingsAsked) -> Markup:
    rules = Markup().join(map(_rule, found.rules))
    requests = Markup().join(map(_request, found.requests))
    nothing = _EMPTY.format(say("No guardrail has found anything in this time."))
    most = max((step.requests for step in found.steps), default=0)
    rails = {one.name: one.name for one in found.guardrails}
    rails |= {one.guardrail: one.guardrail for one in found.rules}
    return _SECTION.format(
        notes=_notes(found),
        since=asked.since,
        model=asked.model,
        key=asked.key,
        rails=_options({"": say("all"), **rails}, asked.guardrail),
        actions=_options({"": say("all"), **{one: say(one) for one in _TONES}}, asked.action),
        rules=_RULES.format(rows=rules) if rules else nothing,
        steps=Markup().join(_step(step, most) for step in found.steps),
        requests=_REQUESTS.format(rows=requests) if requests else nothing,
    )


def _notes(found: GuardrailFindings) -> Markup:
    notes = Markup()
    if not found.guardrails:
        notes += _WARNING.format(say("The configuration has no guardrails."))
    if not found.recorded:
        notes += _WARNING.format(say("Requests are not recorded, because there is no store."))
    if not found.complete:
        counted = f"{found.total:,}"
        notes += _WARNING.format(
            say("More than can be counted; the newest {count} are shown.", count=counted)
        )
    if found.guardrails:
        rails = ", ".join(f"{one.name} ({one.use}, {one.mode})" for one in found.guardrails)
        notes += _QUIET.format(say("Configured: {rails}", rails=rails))
    return notes


def _rule(one: RuleCount) -> Markup:
    return _RULE.format(
        guardrail=one.guardrail,
        query=urlencode({"guardrail": one.guardrail, "rule": one.rule}),
        rule=one.rule,
        tone=_TONES.get(one.action, ""),
        action=say(one.action),
        requests=f"{one.requests:,}",
        last=_time(one.last),
    )


def _step(step: FindingsStep, most: int) -> Markup:
    return _STEP.format(
        label=_time(step.begin),
        width=f"{100 * step.requests / most:.1f}" if most else "0",
        tone="warn",
        count=f"{step.requests:,}",
    )


def _request(one: ListedFinding) -> Markup:
    findings = Markup().join(
        _FINDING.format(
            tone=_TONES.get(each.action, ""),
            text=f"{each.guardrail}/{each.rule}: {say(each.action)}",
        )
        for each in one.findings
    )
    return _REQUEST.format(
        query=urlencode({"id": one.id}),
        id=one.id,
        when=_time(one.time),
        findings=findings,
        model=one.model or "–",
        key=one.key or "–",
        team=one.team or "–",
        status=one.status,
    )


def _time(at: float) -> Markup:
    moment = datetime.fromtimestamp(at, UTC)
    return _TIME.format(
        iso=moment.isoformat(timespec="seconds"), text=moment.strftime("%m-%d %H:%M")
    )


def _options(values: dict[str, str], chosen: str) -> Markup:
    return Markup().join(
        _OPTION.format(value, _SELECTED if value == chosen else "", label)
        for value, label in values.items()
    )
