"""The events section: what happened to backends, the newest first."""

import time
from collections.abc import Sequence

from markupsafe import Markup

from strowger_gateway.gateway.console.admin.page.formatting import span
from strowger_gateway.gateway.console.problems.event_words import (
    cause_of,
    name_of,
    subject_of,
)
from strowger_gateway.gateway.console.problems.happening import of_backend
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.gateway.routing.backend_events.event import ListedEvent
from strowger_gateway.gateway.routing.backend_events.log_line import WARNED

say = words_of(__file__)

SHOWN = 10
"""Events on the page."""

_SECTION = say.template("""
<section id="events" data-live aria-labelledby="h-events">
<h2 id="h-events">[[Events of backends]] <a class="all" href="/admin/view/events">[[all
events]]</a></h2>
<div class="card">{events}</div>
</section>
""")
_LIST = Markup('<ul class="events">{}</ul>')
_ROW = Markup(
    '<li><time datetime="{at}">{ago}</time> <span class="state{tone}">{what}</span> '
    '<span class="quiet">{why}</span></li>'
)
_NONE = say.template("""<p class="empty">[[No events since the gateway started.]]</p>""")


def events_section(events: Sequence[ListedEvent], now: float) -> Markup:
    """now: Unix seconds."""
    if not events:
        return _SECTION.format(events=_NONE.format())
    rows = [
        _ROW.format(
            at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.event.time)),
            ago=say("{time} ago", time=span(max(0.0, now - one.event.time))),
            tone=" bad" if one.event.kind in (*WARNED, "refused") else "",
            what=f"{subject_of(event)}: {name_of(event)}",
            why=cause_of(event),
        )
        for one in events[:SHOWN]
        for event in [of_backend(one, "")]
    ]
    return _SECTION.format(events=_LIST.format(Markup().join(rows)))
