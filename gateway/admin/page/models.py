"""Models and their backends: who may be asked now, how busy it is, and how it has done."""

from collections.abc import Iterable, Sequence
from math import ceil, isinf

from markupsafe import Markup
from msgspec import Struct

from gateway.admin.page.plots import COLOURS
from gateway.admin.page.traffic import Traffic
from gateway.admin.page.wording import count, ms, number, share, span
from gateway.routing.route import Backend, Route
from gateway.telemetry.engine_reports import EngineReport
from gateway.telemetry.series import Cell, total
from gateway.telemetry.sketch import Sketch


class Serving(Struct, frozen=True, kw_only=True, eq=False):
    """What can be followed. now: the clock's seconds. engines: in words, by provider."""

    routes: tuple[Route, ...]
    aliases: dict[str, str]
    engines: tuple[EngineReport, ...]
    now: float


_SECTION = Markup("""
<section id="models" data-live aria-labelledby="h-models">
<h2 id="h-models">Models and backends</h2>
{models}
{engines}
</section>
""")
_MODEL = Markup("""
<div class="card table">
<header><h3>{name}</h3><p class="facts">{facts}</p></header>
<table>
<thead><tr><th scope="col">Backend</th><th scope="col">Health</th><th scope="col">Weight</th>
<th scope="col">In flight</th><th scope="col">Answered</th><th scope="col">Failed tries</th>
<th scope="col">First token</th><th scope="col">Whole answer</th></tr></thead>
<tbody>{rows}</tbody>
</table>
</div>
""")
_ROW = Markup("""<tr>
<th scope="row"><span class="key c{colour}" aria-hidden="true"></span>{name}</th>
<td data-label="Health"><span class="state {tone}">{state}</span>{since}</td>
<td data-label="Weight" class="n">{weight}</td>
<td data-label="In flight" class="n">{busy}</td>
<td data-label="Answered" class="n">{answered}</td>
<td data-label="Failed tries" class="n">{failed}</td>
<td data-label="First token" class="n">{first}</td>
<td data-label="Whole answer" class="n">{whole}</td>
</tr>""")
_SINCE = Markup('<span class="quiet"> last failure {} ago</span>')
_ENGINES = Markup("""
<div class="card table">
<header><h3>Engines here</h3><p class="facts">processes of this gateway</p></header>
<table>
<thead><tr><th scope="col">Engine</th><th scope="col">State</th><th scope="col">Running</th>
<th scope="col">Waiting</th><th scope="col">Cache used</th><th scope="col">Memory</th>
<th scope="col">Up for</th><th scope="col">Restarts</th></tr></thead>
<tbody>{rows}</tbody>
</table>
</div>
""")
_ENGINE = Markup("""<tr>
<th scope="row">{name}</th>
<td data-label="State"><span class="state {tone}">{state}</span></td>
<td data-label="Running" class="n">{running}</td>
<td data-label="Waiting" class="n">{waiting}</td>
<td data-label="Cache used" class="n">{cache}</td>
<td data-label="Memory" class="n">{memory}</td>
<td data-label="Up for" class="n">{up}</td>
<td data-label="Restarts" class="n">{restarts}</td>
</tr>""")
_TONES = {"ready": "good", "failed": "bad"}


def models_section(serving: Serving, traffic: Traffic) -> Markup:
    models = Markup().join(_model(route, serving, traffic) for route in serving.routes)
    rows = Markup().join(_engine(report) for report in serving.engines)
    engines = _ENGINES.format(rows=rows) if serving.engines else Markup()
    return _SECTION.format(models=models, engines=engines)


def _model(route: Route, serving: Serving, traffic: Traffic) -> Markup:
    listed = [*zip(route.backends, route.weights, strict=True)]
    known = {id(backend) for backend in route.backends}
    listed += [(one, 0.0) for one in _only_by_rule(route, known)]
    rows = [_row(route, backend, weight, serving, traffic) for backend, weight in listed]
    return _MODEL.format(
        name=route.name,
        facts=" · ".join(_facts(route, serving.aliases)),
        rows=Markup().join(rows),
    )


def _only_by_rule(route: Route, known: set[int]) -> Iterable[Backend]:
    for rule in route.rules:
        for backend in rule.backends:
            if id(backend) not in known:
                known.add(id(backend))
                yield backend


def _facts(route: Route, aliases: dict[str, str]) -> Sequence[str]:
    facts = [route.policy.name.replace("_", " ")]
    names = [alias for alias, model in aliases.items() if model == route.name]
    if names:
        facts.append("also " + ", ".join(names))
    if route.rules:
        facts.append(f"{len(route.rules)} rule{'s' if len(route.rules) > 1 else ''}")
    if route.fallback:
        facts.append("falls back to " + ", ".join(route.fallback))
    return facts


def _row(
    route: Route, backend: Backend, weight: float, serving: Serving, traffic: Traffic
) -> Markup:
    cell = _cell(route, backend, traffic)
    tone, state = _state(backend, serving)
    since = serving.now - backend.breaker.last_failure
    order = traffic.order
    return _ROW.format(
        colour=order.index(backend.name) % COLOURS if backend.name in order else 0,
        name=backend.name,
        tone=tone,
        state=state,
        since=Markup() if isinf(since) or since > 3600 else _SINCE.format(span(since)),
        weight=number(weight),
        busy=count(backend.load.busy),
        answered=count(cell.requests),
        failed=f"{count(cell.failed)} ({share(cell.failed, cell.attempts)})"
        if cell.failed
        else "0",
        first=ms(Sketch(cell.first).quantile(0.5)),
        whole=ms(Sketch(cell.whole).quantile(0.5)),
    )


def _cell(route: Route, backend: Backend, traffic: Traffic) -> Cell:
    return total(
        cell
        for strand in traffic.strands
        if strand.model == route.name and strand.backend == backend.name
        for cell in strand.cells
    )


def _state(backend: Backend, serving: Serving) -> tuple[str, str]:
    """A tone, and words."""
    provider = backend.name.partition("/")[0]
    for report in serving.engines:
        if report.name == provider and report.state != "ready":
            return _TONES.get(report.state, "warn"), report.state
    breaker = backend.breaker
    wait = ceil(breaker.available_in(serving.now))
    if breaker.resting(serving.now):
        return "warn", f"resting, {wait} s"
    match breaker.state(serving.now):
        case "closed":
            return "good", "healthy"
        case "open":
            return "bad", f"left alone, {wait} s"
        case "half_open":
            return "warn", "being tried"


def _engine(report: EngineReport) -> Markup:
    models = report.models.values()
    total_blocks = sum(model.blocks_total for model in models)
    free = sum(model.blocks_free for model in models)
    return _ENGINE.format(
        name=report.name,
        tone=_TONES.get(report.state, "warn"),
        state=report.state,
        running=count(sum(model.running for model in models)),
        waiting=count(sum(model.waiting for model in models)),
        cache=share(total_blocks - free, total_blocks),
        memory=f"{report.machine.resident_bytes / 1e6:,.0f} MB",
        up=span(report.uptime_s),
        restarts=count(report.restarts),
    )
