"""The view of events: what has happened, by kind, backend, model and time, in all gateways."""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup

from strowger_gateway.gateway.console.problems.admin import (
    EVENT_KINDS,
    LONGEST,
    EventsWanted,
    query_of,
)
from strowger_gateway.gateway.console.problems.event_words import (
    cause_of,
    event_name,
    name_of,
    subject_of,
)
from strowger_gateway.gateway.console.problems.happening import Happening
from strowger_gateway.gateway.console.problems.process_side import ProblemsSide
from strowger_gateway.gateway.parts.console import AdminCall, PageView
from strowger_gateway.gateway.platform.formatting import NONE, span
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

_SECTION = say.template("""
<section aria-label="[[Filters]]">
<form class="row filters" method="get" action="/admin/view/events">
<label>[[Kind]] <select name="kind">{kinds}</select></label>
<label class="grow">[[Model]] <input name="model" value="{model}" maxlength="{longest}"
 autocomplete="off"></label>
<label class="grow">[[Backend]] <input name="backend" value="{backend}" maxlength="{longest}"
 autocomplete="off" placeholder="[[provider, or provider/model]]"></label>
<button class="primary">[[Show]]</button>
</form>
{incomplete}
</section>
<section id="events" {live} aria-label="[[Events]]">
{table}
{older}
</section>
""")
_TABLE = say.template("""<div class="card table plain happened"><table>
<thead><tr><th scope="col">[[What]]</th><th scope="col">[[When]]</th>
<th scope="col">[[Event]]</th><th scope="col">[[Lasted]]</th><th scope="col">[[Gateway]]</th>
</tr></thead>
<tbody>{rows}</tbody></table></div>""")
_ROW = say.template("""<tr>
<th scope="row">{what}</th>
<td data-label="[[When]]"><time datetime="{iso}">{when}</time></td>
<td data-label="[[Event]]"><span class="state {tone}">{kind}</span> {requests}
<span class="why">{cause}</span></td>
<td data-label="[[Lasted]]">{lasted}</td>
<td data-label="[[Gateway]]">{gateway}</td>
</tr>""")
_REQUESTS = say.template("""<a href="/admin/view/requests?{query}">[[requests]]</a>""")
_NONE = say.template('<p class="card empty">[[No event matches.]]</p>')
_INCOMPLETE = say.template(
    '<p class="verdict warn">[[The store does not answer: these are the last events of this'
    " gateway only.]]</p>"
)
_OLDER = say.template(
    '<nav class="pages" aria-label="[[Pages]]"><a class="button" href="/admin/view/events?{query}">'
    "[[Older]]</a></nav>"
)
_OPTION = Markup('<option value="{}"{}>{}</option>')
_NOT_EVENTS: Final = (
    "model_down",
    "model_on_fallback",
    "circuit_open",
    "backend_refused",
    "backend_failing",
    "names_down",
    "backend_held",
    "loading",
)
"""Kinds of problems that are events of backends under other names."""


async def render(call: AdminCall[EventsWanted]) -> Markup:
    """Raises InvalidRequest."""
    given = call.given
    found, complete = await call.side(ProblemsSide).events(query_of(given))
    table = _TABLE.format(rows=Markup().join(map(_row, found))) if found else _NONE.format()
    return _SECTION.format(
        kinds=_kinds(given.kind),
        model=given.model,
        backend=given.backend,
        longest=LONGEST,
        incomplete="" if complete else _INCOMPLETE.format(),
        live=Markup("data-live") if given.before is None else "",
        table=table,
        older=_older(given, found) if len(found) == given.limit else "",
    )


VIEW: Final = PageView(
    name="events",
    title=sentence("Events"),
    say=say,
    group="overview",
    role="viewer",
    takes=EventsWanted,
    render=render,
)


def _kinds(chosen: str) -> Markup:
    options = [_OPTION.format("", "", say("all"))]
    for kind in EVENT_KINDS:
        if kind not in _NOT_EVENTS:
            mark = Markup(" selected") if kind == chosen else ""
            options.append(_OPTION.format(kind, mark, event_name(kind)))
    return Markup().join(options)


def _row(one: Happening) -> Markup:
    at = datetime.fromtimestamp(one.time, UTC)
    return _ROW.format(
        what=subject_of(one),
        cause=cause_of(one),
        iso=at.isoformat(timespec="milliseconds"),
        when=at.strftime("%Y-%m-%d %H:%M:%S"),
        tone=one.tone,
        kind=name_of(one),
        requests=_requests(one),
        lasted=NONE if one.duration_s is None else span(one.duration_s),
        gateway=one.gateway or NONE,
    )


def _requests(one: Happening) -> Markup:
    """Link to the requests around an event of a backend."""
    if not one.backend or one.tone != "bad":
        return Markup()
    backend = one.backend.partition(" @ ")[0]
    around = {"since": f"{one.time - 300:.0f}", "until": f"{one.time + 300:.0f}"}
    return _REQUESTS.format(query=urlencode({"backend": backend, **around}))


def _older(given: EventsWanted, found: list[Happening]) -> Markup:
    asked = {name: value for name, value in msgspec.structs.asdict(given).items() if value}
    return _OLDER.format(query=urlencode({**asked, "before": f"{found[-1].time:.6f}"}))
