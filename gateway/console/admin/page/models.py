"""The models section: health, load and recent results of each backend."""

from math import ceil

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.backends import BackendView, ModelView
from strowger_gateway.gateway.console.admin.page.formatting import count, ms, number, share, span
from strowger_gateway.gateway.console.admin.page.line_chart import COLOURS
from strowger_gateway.gateway.console.admin.page.traffic import Traffic
from strowger_gateway.gateway.console.admin.request_log.links import requests_link
from strowger_gateway.gateway.observability.telemetry.engine_reports import EngineReport
from strowger_gateway.gateway.platform.language import sentence, words_of
from strowger_gateway.gateway.routing.backend_status import BackendStatus
from strowger_gateway.gateway.storage.sql.traffic.counting import QuantileSketch, TrafficCell
from strowger_gateway.gateway.storage.sql.traffic.series import total

say = words_of(__file__)


class ServedModels(Struct, frozen=True, kw_only=True):
    """The models with their backends, and the local engines."""

    models: list[ModelView]
    engines: tuple[EngineReport, ...]


_SECTION = say.template("""
<section id="models" data-live aria-labelledby="h-models">
<h2 id="h-models">[[Models and backends]]</h2>
{models}
{engines}
</section>
""")
_MODEL = say.template("""
<div class="card table">
<header><h3>{name}</h3><p class="facts">{facts}</p></header>
<table>
<thead><tr><th scope="col">[[Backend]]</th><th scope="col">[[Health]]</th><th
 scope="col">[[Weight]]</th>
<th scope="col">[[In flight]]</th><th scope="col">[[Answered]]</th><th scope="col">[[Failed
attempts]]</th>
<th scope="col">[[TTFT p50]]</th><th scope="col">[[Latency p50]]</th></tr></thead>
<tbody>{rows}</tbody>
</table>
</div>
""")
_ROW = say.template("""<tr>
<th scope="row"><span class="key c{colour}" aria-hidden="true"></span>{name}</th>
<td data-label="[[Health]]"><span class="state {tone}">{state}</span>{since}</td>
<td data-label="[[Weight]]" class="n">{weight}</td>
<td data-label="[[In flight]]" class="n">{busy}</td>
<td data-label="[[Answered]]" class="n">{answered}</td>
<td data-label="[[Failed attempts]]" class="n">{failed}</td>
<td data-label="[[TTFT p50]]" class="n">{first}</td>
<td data-label="[[Latency p50]]" class="n">{whole}</td>
</tr>""")
_SINCE = say.template("""<br><span class="quiet">[[last failure {} ago]]</span>""")
_LINK = Markup('<a href="{}">{}</a>')
_ENGINES = say.template("""
<div class="card table">
<header><h3>[[Local engines]]</h3><p class="facts">[[processes of this gateway]]</p></header>
<table>
<thead><tr><th scope="col">[[Engine]]</th><th scope="col">[[State]]</th><th
 scope="col">[[Running]]</th>
<th scope="col">[[Waiting]]</th><th scope="col">[[Cache used]]</th><th scope="col">[[Memory]]</th>
<th scope="col">[[Uptime]]</th><th scope="col">[[Restarts]]</th></tr></thead>
<tbody>{rows}</tbody>
</table>
</div>
""")
_ENGINE = say.template("""<tr>
<th scope="row">{name}</th>
<td data-label="[[State]]"><span class="state {tone}">{state}</span></td>
<td data-label="[[Running]]" class="n">{running}</td>
<td data-label="[[Waiting]]" class="n">{waiting}</td>
<td data-label="[[Cache used]]" class="n">{cache}</td>
<td data-label="[[Memory]]" class="n">{memory}</td>
<td data-label="[[Uptime]]" class="n">{up}</td>
<td data-label="[[Restarts]]" class="n">{restarts}</td>
</tr>""")
_LONG_AGO_S = 3600
_ENOUGH, _MANY = 8, 0.2
"""Attempts in the window, and the share of failed ones, from which on a backend is not healthy."""
_TONES = {"ready": "good", "failed": "bad"}
_STATES = (
    sentence("ready"),
    sentence("failed"),
    sentence("loading"),
    sentence("stopped"),
    sentence("restarting"),
    sentence("unreachable"),
)
"""Of engines."""

_POLICIES = (
    sentence("in order"),
    sentence("weighted"),
    sentence("least busy"),
    sentence("lowest latency"),
    sentence("lowest cost"),
    sentence("sticky"),
    sentence("prefix affinity"),
)


def models_section(served: ServedModels, traffic: Traffic) -> Markup:
    models = Markup().join(_model(model, served, traffic) for model in served.models)
    rows = Markup().join(_engine(report) for report in served.engines)
    engines = _ENGINES.format(rows=rows) if served.engines else Markup()
    return _SECTION.format(models=models, engines=engines)


def _model(model: ModelView, served: ServedModels, traffic: Traffic) -> Markup:
    rows = [_row(model, backend, served, traffic) for backend in model.backends]
    name = _LINK.format(requests_link(model=model.name, since=traffic.window), model.name)
    return _MODEL.format(name=name, facts=" · ".join(_facts(model)), rows=Markup().join(rows))


def _facts(model: ModelView) -> list[str]:
    facts = [say(model.policy.replace("_", " "))]
    if model.aliases:
        facts.append(say("aliases {names}", names=", ".join(model.aliases)))
    facts += [f"{rule.when}: {', '.join(rule.backends)}" for rule in model.when]
    if model.experiment is not None:
        facts.append(say("experiment {name}", name=model.experiment.name))
    if model.mirror is not None:
        facts.append(
            say(
                "copies of {share:.4g} % to {backend}",
                share=100 * model.mirror.share,
                backend=model.mirror.backend,
            )
        )
    if model.fallback:
        facts.append(say("fallback to {names}", names=", ".join(model.fallback)))
    facts += [f"{', '.join(row.codes)}: {', '.join(row.models)}" for row in model.fallback_by_error]
    return facts


def _row(model: ModelView, backend: BackendView, served: ServedModels, traffic: Traffic) -> Markup:
    health, order = backend.health, traffic.order
    # Traffic is counted by backend: its replicas come and go.
    cell = _cell(model.name, backend.name, traffic) if not backend.replica else None
    tone, state = _state(backend, served, cell)
    since = health.failed_s_ago
    return _ROW.format(
        colour=order.index(backend.name) % COLOURS if backend.name in order else 0,
        name=backend.place,
        tone=tone,
        state=state,
        since=Markup() if since is None or since > _LONG_AGO_S else _SINCE.format(span(since)),
        weight=_weight(backend),
        busy=count(health.in_flight + health.in_flight_other_processes),
        **_results(cell, model, backend, traffic),
    )


def _results(
    cell: TrafficCell | None, model: ModelView, backend: BackendView, traffic: Traffic
) -> dict[str, Markup | str]:
    """The columns of results; of a replica only its latencies are known."""
    health: BackendStatus = backend.health
    if cell is None:
        first, whole = health.time_to_first_token_s, health.latency_s
        latencies: dict[str, Markup | str] = {"first": _moving(first), "whole": _moving(whole)}
        return {"answered": "", "failed": "", **latencies}
    failed = f"{count(cell.failed)} ({share(cell.failed, cell.attempts)})" if cell.failed else "0"
    link = requests_link(model=model.name, backend=backend.name, since=traffic.window)
    return {
        "answered": _LINK.format(link, count(cell.requests - cell.errors)),
        "failed": _LINK.format(link, failed) if cell.failed else failed,
        "first": ms(QuantileSketch(cell.ttft).quantile(0.5)),
        "whole": ms(QuantileSketch(cell.latency).quantile(0.5)),
    }


def _moving(seconds: float | None) -> str:
    return "" if seconds is None else ms(seconds * 1e3)


def _weight(backend: BackendView) -> str:
    """Its weight in the model's list; variants' backends get requests from the experiment only."""
    if backend.variants:
        return say("by experiment")
    return say("by rule") if backend.weight is None else number(backend.weight)


def _cell(model: str, backend: str, traffic: Traffic) -> TrafficCell:
    return total(
        cell
        for series in traffic.found.by_backend
        if series.model == model and series.backend == backend
        for cell in series.cells
    )


def _state(backend: BackendView, served: ServedModels, cell: TrafficCell | None) -> tuple[str, str]:
    """A tone, and the state as text."""
    provider = backend.name.partition("/")[0]
    for report in served.engines:
        if report.name == provider and report.state != "ready":
            return _TONES.get(report.state, "warn"), say(report.state)
    health = backend.health
    if health.held is not None:
        return "warn", health.held.state
    wait = ceil(health.available_in_s)
    if health.refused_for_s:
        return "bad", say("account or model refused · retry in {wait} s", wait=wait)
    if health.honouring_retry_after:
        return "warn", say("rate-limited · retry in {wait} s", wait=wait)
    match health.breaker:
        case "closed":
            return _closed(health, cell)
        case "open":
            if (many := health.failures_seen_by) > 1:
                return "bad", say(
                    "circuit open on failures of {count} gateways · probe in {wait} s",
                    count=many,
                    wait=wait,
                )
            return "bad", say("circuit open · probe in {wait} s", wait=wait)
        case "half_open":
            return "bad", (
                say("half-open · probing") if health.probing else say("half-open · probe due")
            )


def _closed(health: BackendStatus, cell: TrafficCell | None) -> tuple[str, str]:
    """The state of a backend whose circuit is closed. cell: its traffic, if that is known."""
    if health.phase == "refused":
        return "bad", say("account or model refused · next try due")
    if health.phase == "failing":
        return "bad", say("failing · no success for {time}", time=span(health.down_for_s or 0.0))
    if health.deprioritised_for_s:
        return "warn", say(
            "deprioritised after 429 · {wait} s", wait=ceil(health.deprioritised_for_s)
        )
    if health.slow:
        return "warn", say("slow · others first")
    if cell is not None and cell.attempts >= _ENOUGH and cell.failed > _MANY * cell.attempts:
        return "warn", say("works · {share} fail", share=share(cell.failed, cell.attempts))
    if not health.tried:
        return "", say("not tried yet")
    return "good", say("healthy")


def _engine(report: EngineReport) -> Markup:
    models = report.models.values()
    total_blocks = sum(model.blocks_total for model in models)
    free = sum(model.blocks_free for model in models)
    return _ENGINE.format(
        name=report.name,
        tone=_TONES.get(report.state, "warn"),
        state=say(report.state),
        running=count(sum(model.running for model in models)),
        waiting=count(sum(model.waiting for model in models)),
        cache=share(total_blocks - free, total_blocks),
        memory=f"{report.machine.resident_bytes / 1e6:,.0f} MB",
        up=span(report.uptime_s),
        restarts=count(report.restarts),
    )
