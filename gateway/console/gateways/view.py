"""The view of gateways and engines: what runs, in which version, with which configuration."""

import time
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from strowger_gateway.gateway.console.admin.engines import EngineModelView, EngineProcessView
from strowger_gateway.gateway.console.admin.page.formatting import NONE, span
from strowger_gateway.gateway.console.gateways.answer import GatewayList
from strowger_gateway.gateway.console.gateways.report import (
    DownBackend,
    SeenGateway,
    SettingDifference,
)
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

_SECTION: Final = say.template("""
<section id="gateways" data-live data-every="10" aria-labelledby="h-gateways">
<h2 id="h-gateways">[[Gateways]]</h2>
{trouble}
<div class="card table plain">{gateways}</div>
<h2>[[Backends that are down]]</h2>
<div class="card table plain">{down}</div>
<h2>[[Settings that differ]]</h2>
<div class="card table plain">{differences}</div>
<h2>[[Engines of this gateway]]</h2>
<div class="card table plain">{engines}</div>
</section>
""")
_GATEWAYS: Final = say.template("""<table>
<thead><tr><th scope="col">[[Gateway]]</th><th scope="col">[[State]]</th>
<th scope="col">[[Version]]</th><th scope="col">[[Configuration]]</th>
<th scope="col" class="n">[[Uptime]]</th><th scope="col" class="n">[[Workers]]</th>
<th scope="col" class="n">[[Memory]]</th><th scope="col" class="n">[[In flight]]</th>
<th scope="col" class="n">[[Import lag]]</th></tr></thead><tbody>{rows}</tbody></table>""")
_GATEWAY: Final = say.template("""<tr><th scope="row">{name} {itself}</th>
<td data-label="[[State]]"><span class="state {tone}">{state}</span></td>
<td data-label="[[Version]]">{version}</td>
<td data-label="[[Configuration]]"><code>{digest}</code> {rejected}</td>
<td class="n" data-label="[[Uptime]]">{uptime}</td>
<td class="n" data-label="[[Workers]]">{workers}</td>
<td class="n" data-label="[[Memory]]">{memory}</td>
<td class="n" data-label="[[In flight]]">{busy}</td>
<td class="n" data-label="[[Import lag]]">{lag}</td></tr>""")
_DOWN: Final = say.template("""<table>
<thead><tr><th scope="col">[[Backend]]</th><th scope="col">[[Model]]</th>
<th scope="col">[[In the opinion of]]</th></tr></thead><tbody>{rows}</tbody></table>""")
_DOWN_ROW: Final = say.template("""<tr><th scope="row">{backend}</th>
<td data-label="[[Model]]">{model}</td>
<td data-label="[[In the opinion of]]">{opinions}</td></tr>""")
_OPINION: Final = Markup('{}: <span class="state {}">{}</span> {}<br>')
_DOWN_STATES: Final = {
    "refused": sentence("account or model refused"),
    "open": sentence("circuit open"),
    "failing": sentence("failing"),
    "cooldown": sentence("cooling down"),
    "draining": sentence("draining"),
    "disabled": sentence("disabled"),
}
_DIFFERENCES: Final = say.template("""<table>
<thead><tr><th scope="col">[[Key]]</th><th scope="col">[[Values]]</th></tr></thead>
<tbody>{rows}</tbody></table>""")
_DIFFERENCE: Final = say.template("""<tr><th scope="row"><code>{path}</code></th>
<td data-label="[[Values]]">{values}</td></tr>""")
_VALUE: Final = Markup("{}: <code>{}</code><br>")
_ENGINES: Final = say.template("""<table>
<thead><tr><th scope="col">[[Engine]]</th><th scope="col">[[State]]</th>
<th scope="col">[[Device]]</th><th scope="col">[[Model]]</th>
<th scope="col" class="n">[[Running]]</th><th scope="col" class="n">[[Waiting]]</th>
<th scope="col" class="n">[[Cache used]]</th><th scope="col" class="n">[[Tokens/s]]</th>
<th scope="col" class="n">[[Memory]]</th><th scope="col" class="n">[[Uptime]]</th>
<th scope="col" class="n">[[Restarts]]</th></tr></thead><tbody>{rows}</tbody></table>""")
_ENGINE: Final = say.template("""<tr><th scope="row">{name}</th>
<td data-label="[[State]]"><span class="state {tone}">{state}</span></td>
<td data-label="[[Device]]">{device}</td>
<td data-label="[[Model]]">{model}</td>
<td class="n" data-label="[[Running]]">{running}</td>
<td class="n" data-label="[[Waiting]]">{waiting}</td>
<td class="n" data-label="[[Cache used]]">{cache}</td>
<td class="n" data-label="[[Tokens/s]]">{rate}</td>
<td class="n" data-label="[[Memory]]">{memory}</td>
<td class="n" data-label="[[Uptime]]">{uptime}</td>
<td class="n" data-label="[[Restarts]]">{restarts}</td></tr>""")
_EMPTY: Final = Markup('<p class="empty">{}</p>')
_WARNING: Final = Markup('<p class="verdict warn">{}</p>')
_TAG: Final = Markup('<span class="tag {}">{}</span>')
_MIB: Final = 1024 * 1024
_STATES: Final = {
    "ready": sentence("ready"),
    "loading": sentence("loading"),
    "restarting": sentence("restarting"),
    "failed": sentence("failed"),
    "stopped": sentence("stopped"),
    "unreachable": sentence("unreachable"),
}
_TONES: Final = {"ready": "good", "failed": "bad", "unreachable": "bad"}


def sections(found: GatewayList, engines: Sequence[EngineProcessView]) -> Markup:
    now = time.time()
    usual = _usual(found.gateways)
    gateways = Markup().join(_gateway(one, usual, now) for one in found.gateways)
    differing = Markup().join(map(_difference, found.differences))
    rows = Markup().join(_engine(one, now) for one in engines)
    alike = say("None: the gateways that respond have the same settings.")
    return _SECTION.format(
        trouble=_WARNING.format(found.trouble) if found.trouble else "",
        gateways=_GATEWAYS.format(rows=gateways) if gateways else _EMPTY.format(NONE),
        down=_down(found.gateways, now),
        differences=_DIFFERENCES.format(rows=differing) if differing else _EMPTY.format(alike),
        engines=_ENGINES.format(rows=rows)
        if rows
        else _EMPTY.format(say("The configuration has no local engines.")),
    )


def _down(gateways: Sequence[SeenGateway], now: float) -> Markup:
    """Which gateway thinks what, by backend; those that agree that one works are not listed."""
    responding = [one for one in gateways if one.responding]
    places: dict[tuple[str, str], dict[str, DownBackend]] = {}
    for gateway in responding:
        for one in gateway.down:
            places.setdefault((one.backend, one.model), {})[gateway.name] = one
    if not places:
        return _EMPTY.format(say("None, in the opinion of all gateways that respond."))
    rows = Markup().join(
        _DOWN_ROW.format(
            backend=backend,
            model=model,
            opinions=Markup().join(
                _opinion(gateway.name, known.get(gateway.name), now) for gateway in responding
            ),
        )
        for (backend, model), known in sorted(places.items())
    )
    return _DOWN.format(rows=rows)


def _opinion(gateway: str, one: DownBackend | None, now: float) -> Markup:
    if one is None:
        return _OPINION.format(gateway, "good", say("works"), "")
    since = "" if one.since is None else say("for {time}", time=span(max(0.0, now - one.since)))
    tone = "warn" if one.state in ("cooldown", "draining", "disabled") else "bad"
    return _OPINION.format(gateway, tone, say(_DOWN_STATES.get(one.state, one.state)), since)


def _usual(gateways: Sequence[SeenGateway]) -> tuple[str, str]:
    """Return version and configuration of the one that answers."""
    own = next((one for one in gateways if one.itself), None)
    return ("", "") if own is None else (own.version, own.digest)


def _gateway(one: SeenGateway, usual: tuple[str, str], now: float) -> Markup:
    version, digest = usual
    ago = span(max(0.0, now - one.seen))
    missing = one.workers < one.wanted
    return _GATEWAY.format(
        name=one.name,
        itself=_TAG.format("accent", say("this one")) if one.itself else "",
        tone="good" if one.responding and not missing else "warn" if one.responding else "bad",
        state=say("responding") if one.responding else say("no report for {time}", time=ago),
        version=_marked(one.version or NONE, differs=one.version != version),
        digest=one.digest,
        rejected=_notes(one, digest),
        uptime=span(one.uptime_s),
        workers=f"{one.workers} / {one.wanted}" if missing else str(one.workers),
        memory=f"{one.memory_bytes / _MIB:,.0f} MiB" if one.memory_bytes else NONE,
        busy=f"{one.in_flight:,}",
        lag=span(one.import_lag_s),
    )


def _notes(one: SeenGateway, digest: str) -> Markup:
    notes = Markup()
    if one.digest != digest:
        notes += _TAG.format("warn", say("differs"))
    if one.rejected:
        notes += _TAG.format("bad", say("file rejected"))
    return notes


def _marked(text: str, *, differs: bool) -> Markup:
    return _TAG.format("warn", text) if differs else Markup("{}").format(text)


def _difference(one: SettingDifference) -> Markup:
    values = Markup().join(
        _VALUE.format(name, say("not set") if value is None else value)
        for name, value in one.values.items()
    )
    return _DIFFERENCE.format(path=one.path, values=values)


def _engine(one: EngineProcessView, now: float) -> Markup:
    """One row per model; an engine that does not respond has one row."""
    models = one.models or {NONE: None}
    return Markup().join(
        _ENGINE.format(
            name=f"{one.name} @ {one.host}" if one.host and one.address else one.name,
            tone=_TONES.get(one.state, "warn"),
            state=say(_STATES.get(one.state, one.state)) if one.up else one.status or one.state,
            device=" ".join(filter(None, (one.device, one.dtype))) or NONE,
            model=name,
            uptime=span(one.uptime_s),
            restarts=f"{one.restarts:,}",
            **_load(model, one, now),
        )
        for name, model in models.items()
    )


def _load(model: EngineModelView | None, one: EngineProcessView, now: float) -> dict[str, str]:
    if model is None:
        return dict.fromkeys(("running", "waiting", "cache", "rate", "memory"), NONE)
    seconds = now - model.loaded_since if model.loaded_since else 0.0
    return {
        "running": f"{model.running:,}",
        "waiting": f"{model.waiting:,}",
        "cache": f"{100 * model.cache_used_share:.0f} %",
        "rate": f"{model.num_output_tokens / seconds:,.1f}" if seconds > 0 else NONE,
        "memory": f"{one.resident_bytes / _MIB:,.0f} MiB" if one.resident_bytes else NONE,
    }
