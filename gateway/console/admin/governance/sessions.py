"""Who is signed in to /admin, as a table with a button that ends each session."""

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.governance.markup import ago, note, problem
from strowger_gateway.gateway.console.admin.page.formatting import NONE
from strowger_gateway.gateway.console.admin.sessions import SessionView
from strowger_gateway.gateway.platform.language import words_of

say = words_of(__file__)

MOST_SHOWN = 500

_SECTION = say.template("""
<section id="sessions" aria-label="[[Sessions]]">
{problem}{note}
<div class="card table plain">{table}</div>
{more}
</section>
""")
_TABLE = say.template("""<table>
<thead><tr><th scope="col">[[Who]]</th><th scope="col">[[Role]]</th><th scope="col">[[Teams]]</th>
<th scope="col">[[Address]]</th><th scope="col">[[Signed in]]</th><th scope="col">[[Last seen]]</th>
<th scope="col">[[Expires]]</th><th scope="col"><span class="hidden">[[End]]</span></th>
</tr></thead>
<tbody>{rows}</tbody>
</table>""")
_ROW = say.template("""<tr>
<th scope="row">{who}{mine}</th>
<td data-label="[[Role]]">{role}</td>
<td data-label="[[Teams]]">{teams}</td>
<td data-label="[[Address]]">{address}</td>
<td data-label="[[Signed in]]">{since}</td>
<td data-label="[[Last seen]]">{seen}</td>
<td data-label="[[Expires]]">{expires}</td>
<td><form method="post" action="/admin/view/sessions/{id}/end">
<button class="danger" aria-label="[[End the session of {who}]]">[[End]]</button></form></td>
</tr>""")
_MINE = say.template(""" <span class="tag">[[this browser]]</span>""")
_NONE = say.template("""<p class="empty">[[There are no sessions that you may see.]]</p>""")
_MORE = say.template("""<p class="quiet">[[Admins see and end all sessions, others their own. An
ended session is
refused everywhere within two seconds.{}]]</p>""")


class SessionPart(Struct, frozen=True, kw_only=True):
    """What the part shows. refused: why nothing was ended. done: what was."""

    sessions: Sequence[SessionView]
    now: datetime
    refused: str = ""
    done: str = ""


def sessions_section(part: SessionPart) -> Markup:
    hidden = len(part.sessions) - MOST_SHOWN
    rows = Markup().join(_row(one, part.now) for one in part.sessions[:MOST_SHOWN])
    return _SECTION.format(
        problem=problem(part.refused),
        note=note(part.done),
        table=_TABLE.format(rows=rows) if rows else _NONE.format(),
        more=_MORE.format(
            say(" {count:,} more are not shown.", count=hidden) if hidden > 0 else ""
        ),
    )


def _row(one: SessionView, now: datetime) -> Markup:
    return _ROW.format(
        id=one.id,
        who=one.who,
        mine=_MINE.format() if one.current else "",
        role=one.role,
        teams=", ".join(one.teams) or NONE,
        address=one.address or NONE,
        since=ago(one.since, now),
        seen=ago(one.last_seen, now),
        expires=ago(one.expires, now),
    )
