"""The view of backends on the page: what is out of service, and forms to change that."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from markupsafe import Markup

from strowger_gateway.gateway.parts.console import AdminCall, Nothing, PageView
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.language import sentence, words_of
from strowger_gateway.gateway.routing.backend_holds.admin import DISABLE, DRAIN, ENABLE
from strowger_gateway.gateway.routing.backend_holds.names import (
    backends_in,
    hold_of,
    is_configured,
    without_backend,
)
from strowger_gateway.gateway.routing.backend_holds.process_side import HoldsSide
from strowger_gateway.gateway.routing.backend_status import status_of
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold, HoldState

say = words_of(__file__)

_HELD: Final = Markup("""<section id="held" class="card table plain">
<header><h2>{title}</h2><p class="facts">{facts}</p></header>
<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{effects}</section>
""")
_NONE: Final = Markup('<section id="held" class="card"><p class="empty">{}</p></section>\n')
_HEAD: Final = Markup('<th scope="col">{}</th>')
_HOLD: Final = Markup("""<tr><th scope="row">{name}{gone}</th>
<td data-label="{labels[0]}"><span class="state {tone}">{state}</span></td>
<td data-label="{labels[1]}">{reason}</td><td data-label="{labels[2]}">{by}</td>
<td data-label="{labels[3]}">{since}</td><td data-label="{labels[4]}">{until}</td>
<td data-label="{labels[5]}">{end}</td></tr>
""")
_END: Final = Markup("""<form method="post" action="/admin/view/backends/enable">
<input type="hidden" name="name" value="{name}">
<button aria-label="{label}">{enable}</button></form>""")
_GONE: Final = Markup(' <span class="tag">{}</span>')
_TIME: Final = Markup('<time datetime="{iso}">{text}</time>')
_EFFECTS: Final = Markup('<ul class="conditions">{}</ul>')
_EFFECT: Final = Markup("<li>{}</li>")
_FORM: Final = Markup("""<details class="card make" id="hold"{open}>
<summary>{title}</summary>
<form method="post" action="/admin/view/backends/drain">
<div class="fields">
<label>{what}<select name="name" required>{options}</select></label>
<label>{why}<input name="reason" maxlength="2000" autocomplete="off"></label>
<label>{until}<input name="until" maxlength="40" autocomplete="off" placeholder="2h"></label>
</div>
<div class="row"><button class="primary">{drain}</button>
<button class="danger" formaction="/admin/view/backends/disable">{disable}</button>
<p class="quiet">{about}</p></div>
</form>
</details>
""")
_GROUP: Final = Markup('<optgroup label="{}">{}</optgroup>')
_OPTION: Final = Markup('<option value="{}">{}</option>')
_ALL: Final = Markup("""<section id="backends" class="card table plain">
<header><h2>{title}</h2><p class="facts">{facts}</p></header>
<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></section>
""")
_ROW: Final = Markup("""<tr>
<th scope="row"><a href="/admin/view/requests?backend={link}">{name}</a></th>
<td data-label="{labels[0]}"><span class="state {tone}">{state}</span></td>
<td data-label="{labels[1]}">{models}</td>
<td data-label="{labels[2]}" class="n">{busy}</td></tr>
""")
_STATES: Final[Mapping[HoldState, str]] = {
    "draining": sentence("draining"),
    "disabled": sentence("disabled"),
    "over_budget": sentence("over budget"),
}
_PHASES: Final[Mapping[str, str]] = {
    "up": sentence("in service"),
    "failing": sentence("failing"),
    "refused": sentence("account or model refused"),
    "open": sentence("circuit open"),
}


async def render(call: AdminCall[Nothing]) -> Markup:
    """Return the holds, the form of an admin, and all backends. Raises StoreUnavailable."""
    side = call.side(HoldsSide)
    holds = await side.current()
    admin = call.role == "admin"
    return Markup().join(
        (
            _held(call, holds, admin=admin),
            _form(call, opened=not holds) if admin else Markup(),
            _backends(side.backends, (*holds, *side.caps)),
        )
    )


VIEW: Final = PageView(
    name="backends",
    title=sentence("Backends"),
    say=say,
    group="models",
    role="viewer",
    takes=Nothing,
    render=render,
    forms={"drain": DRAIN, "disable": DISABLE, "enable": ENABLE},
)


def _held(call: AdminCall[Nothing], holds: Sequence[BackendHold], *, admin: bool) -> Markup:
    if not holds:
        return _NONE.format(say("No backend is drained or disabled."))
    labels = [say("State"), say("Reason"), say("By"), say("Since"), say("Until"), ""]
    effects = [_EFFECT.format(one) for one in without_backend(call.config, holds)]
    return _HELD.format(
        title=say("Out of service"),
        facts=say("in all gateways that share the store"),
        head=Markup().join(map(_HEAD.format, (say("Backend"), *labels))),
        rows=Markup().join(
            _hold(one, labels, configured=is_configured(one.name, call.config), admin=admin)
            for one in holds
        ),
        effects=_EFFECTS.format(Markup().join(effects)) if effects else Markup(),
    )


def _hold(one: BackendHold, labels: Sequence[str], *, configured: bool, admin: bool) -> Markup:
    end = _END.format(
        name=one.name, enable=say("Enable"), label=say("Enable {name}", name=one.name)
    )
    return _HOLD.format(
        name=one.name,
        gone=Markup() if configured else _GONE.format(say("not in this configuration")),
        labels=labels,
        tone="bad" if one.state == "disabled" else "warn",
        state=say(_STATES[one.state]),
        reason=one.reason,
        by=one.by,
        since=_moment(one.since),
        until=say("it is enabled") if one.until is None else _moment(one.until),
        end=end if admin else Markup(),
    )


def _form(call: AdminCall[Nothing], *, opened: bool) -> Markup:
    config = call.config
    used = {name.partition("/")[0] for name in backends_in(config)}
    groups = (
        (say("All backends of a provider"), [p.name for p in config.providers if p.name in used]),
        (say("One backend"), backends_in(config)),
    )
    return _FORM.format(
        open=Markup(" open") if opened else Markup(),
        title=say("Take a backend out of service"),
        what=say("Backend"),
        why=say("Reason"),
        until=say("Until (2h, 3d, a time; empty: until it is enabled)"),
        options=Markup().join(
            _GROUP.format(label, Markup().join(_OPTION.format(one, one) for one in names))
            for label, names in groups
        ),
        drain=say("Drain"),
        disable=say("Disable"),
        about=say(
            "Drain: no new requests, and those in flight end. Disable: no health checks either."
        ),
    )


def _backends(backends: Mapping[str, Backend], holds: Sequence[BackendHold]) -> Markup:
    places: dict[str, list[tuple[str, Backend]]] = {}
    for key, backend in backends.items():
        places.setdefault(backend.place, []).append((key.partition(": ")[0], backend))
    labels = [say("State"), say("Models"), say("In flight")]
    return _ALL.format(
        title=say("All backends"),
        facts=say("in flight: of this gateway, and of those that it shares loads with"),
        head=Markup().join(map(_HEAD.format, (say("Backend"), *labels))),
        rows=Markup().join(_row(place, uses, holds, labels) for place, uses in places.items()),
    )


def _row(
    place: str,
    uses: Sequence[tuple[str, Backend]],
    holds: Sequence[BackendHold],
    labels: Sequence[str],
) -> Markup:
    health = [status_of(backend, now()) for _, backend in uses]
    hold = hold_of([one for one in holds if not one.is_over(time.time())], place)
    worst = next((one.phase for one in health if one.phase != "up"), "up")
    busy = sum(one.in_flight + one.in_flight_other_processes for one in health)
    if hold is not None:
        tone, state = "bad" if hold.state == "disabled" else "warn", say(_STATES[hold.state])
    else:
        tone, state = "good" if worst == "up" else "bad", say(_PHASES[worst])
    return _ROW.format(
        link=quote(uses[0][1].name, safe=""),
        name=place,
        labels=labels,
        tone=tone,
        state=state,
        models=", ".join(dict.fromkeys(model for model, _ in uses)),
        busy=f"{busy:,}",
    )


def _moment(at: float) -> Markup:
    when = datetime.fromtimestamp(at, UTC)
    return _TIME.format(
        iso=when.isoformat(timespec="seconds"), text=when.strftime("%Y-%m-%d %H:%M UTC")
    )
