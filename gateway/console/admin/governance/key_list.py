"""The keys of the gateway as a table, and the form that issues one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.governance.key_forms.disclosures import issuing
from strowger_gateway.gateway.console.admin.governance.markup import ago, note, problem
from strowger_gateway.gateway.console.admin.page.formatting import NONE
from strowger_gateway.gateway.governance.issued_keys.view import KeyView
from strowger_gateway.gateway.governance.sessions.principal import Principal
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

MOST_SHOWN: Final = 500
"""Rows of the table; the search finds the others."""

_SECTION = say.template("""
<section id="keys" aria-label="[[API keys]]">
{problem}{note}{make}
<form class="search row" method="get" action="/admin/view/keys" role="search">
<label class="grow"><span class="hidden">[[Search keys]]</span>
<input name="q" type="search" value="{q}" placeholder="[[name, team, user or tag]]"></label>
<label class="check"><input type="checkbox" name="all" value="on"{all}> [[Show revoked
keys]]</label>
<button>[[Search]]</button>
</form>
<div class="card table plain keys">
{table}
</div>
{more}
</section>
""")
_TABLE = say.template("""<table>
<thead><tr><th scope="col">[[Key]]</th><th scope="col">[[State]]</th><th scope="col">[[Team]]</th>
<th scope="col">[[User]]</th><th scope="col">[[Models]]</th><th scope="col">[[Last used]]</th>
<th scope="col">[[Expires]]</th></tr></thead>
<tbody>{rows}</tbody>
</table>""")
_ROW = say.template("""<tr>
<th scope="row"><a href="/admin/view/keys/{path}">{name}</a>{source}</th>
<td data-label="[[State]]"><span class="state {tone}">{state}</span></td>
<td data-label="[[Team]]">{team}</td>
<td data-label="[[User]]">{user}</td>
<td data-label="[[Models]]">{models}</td>
<td data-label="[[Last used]]">{used}</td>
<td data-label="[[Expires]]">{expires}</td>
</tr>""")
_FILE = say.template(""" <span class="tag">[[file]]</span>""")
_NONE = Markup('<p class="empty">{}</p>')
_MORE = say.template(
    """<p class="quiet">[[{shown:,} of {all:,} keys are shown. Search for the others.]]</p>"""
)
_TONES: Final[Mapping[str, str]] = {
    sentence("active"): "good",
    sentence("disabled"): "warn",
    sentence("not yet valid"): "warn",
    sentence("expired"): "bad",
    sentence("ignored"): "bad",
    sentence("unknown team"): "bad",
    sentence("revoked"): "",
}


class KeyPage(Struct, frozen=True, kw_only=True):
    """What the list shows.

    who: looks at it. teams, models: of the configuration.
    fields, errors: of a form that was refused. more: it asks for another row of this kind.
    """

    keys: Sequence[KeyView]
    who: Principal
    teams: Sequence[str]
    now: datetime
    q: str = ""
    all: bool = False
    models: Sequence[str] = ()
    fields: Mapping[str, str] = {}
    errors: Mapping[str, str] = {}
    more: str = ""
    refused: str = ""
    done: str = ""
    trouble: str = ""


def key_list_section(page: KeyPage) -> Markup:
    found = [key for key in page.keys if _matches(key, page)]
    rows = Markup().join(_row(key, page.now) for key in found[:MOST_SHOWN])
    nothing = say("No key matches.") if page.keys else say("There are no keys yet.")
    return _SECTION.format(
        problem=problem(page.trouble),
        note=note(page.done),
        make=Markup()
        if page.trouble
        else issuing(
            page.who,
            page.teams,
            page.models,
            page.fields,
            page.errors,
            more=page.more,
            refused=page.refused,
        ),
        q=page.q,
        all=Markup(" checked") if page.all else "",
        table=_TABLE.format(rows=rows) if found else _NONE.format(nothing),
        more=_MORE.format(shown=MOST_SHOWN, all=len(found)) if len(found) > MOST_SHOWN else "",
    )


def state_tone(state: str) -> str:
    """The colour of a key's state."""
    return _TONES.get(state, "")


def state_word(state: str) -> str:
    """A key's state in the language of the reader."""
    return say(state)


def _matches(key: KeyView, page: KeyPage) -> bool:
    if key.state == "revoked" and not page.all:
        return False
    q = page.q.casefold()
    return any(q in text.casefold() for text in (key.name, key.team, key.user, *key.tags))


def _row(key: KeyView, now: datetime) -> Markup:
    return _ROW.format(
        path=quote(key.name, safe=""),
        name=key.name,
        source=_FILE.format() if key.source == "file" else "",
        tone=state_tone(key.state),
        state=state_word(key.state),
        team=key.team or NONE,
        user=key.user or NONE,
        models=say("all") if "*" in key.models else ", ".join(key.models),
        used=ago(key.last_used, now, NONE if key.source == "file" else say("never")),
        expires=NONE if key.source == "file" else ago(key.expires, now, say("never")),
    )
