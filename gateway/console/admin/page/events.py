"""The events section: what happened to backends, the newest first."""

import time
from collections.abc import Sequence

from markupsafe import Markup

from strowger_gateway.gateway.console.admin.page.formatting import span
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.gateway.routing.backend_events.event import ListedEvent
from strowger_gateway.gateway.routing.backend_events.log_line import WARNED, line_of

say = words_of(__file__)

SHOWN = 10
"""Events on the page."""

_SECTION = say.template("""
<section id="events" data-live aria-labelledby="h-events">
<h2 id="h-events">[[Events of backends]]</h2>
<div class="card">{events}</div>
</section>
""")
_LIST = Markup('<ul class="events">{}</ul>')
_ROW = Markup('<li><time datetime="{at}">{ago}</time> <span class="state{tone}">{what}</span></li>')
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
            what=line_of(one),
        )
        for one in events[:SHOWN]
    ]
    return _SECTION.format(events=_LIST.format(Markup().join(rows)))
