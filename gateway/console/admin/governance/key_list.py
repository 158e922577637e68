"""The keys of the gateway as a table, and the form that issues one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.config.schema.units import MOST_URGENT
from strowger_gateway.gateway.console.admin.governance.markup import (
    ago,
    note,
    options,
    problem,
    rule_fields,
)
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
_MAKE = say.template("""
<details class="card make"{open}>
<summary>[[Issue a key]]</summary>
<form method="post" action="/admin/view/keys">
{problem}
<div class="fields">
<label>[[Name]] <input name="name" required maxlength="128" autocomplete="off"
 value="{name}"></label>
{team}
<label>[[User]] <input name="user" maxlength="256" autocomplete="off" value="{user}"
 placeholder="[[the person or program it is for]]"></label>
<label>[[Models]] <input name="models" autocomplete="off" value="{models}" placeholder="gpt-*,
chat">
</label>
<label>[[Tags]] <input name="tags" autocomplete="off" value="{tags}"
 placeholder="[[for reports: prod, cc-4711]]"></label>
<label>[[Expires]] <input name="expires" type="date" value="{expires}"></label>
<label>[[Networks]] <input name="allowed_networks" autocomplete="off" value="{allowed_networks}"
 placeholder="10.1.0.0/16"></label>
<label>[[Most urgent priority]] <select name="max_priority">{priority}</select></label>
</div>
{rules}
<div class="row"><button class="primary">[[Issue the key]]</button>
<p class="quiet">[[Its secret is shown once, on the next page. Several models, tags or networks:
separated by commas. A key expires at the beginning of the day, UTC.]]</p></div>
</form>
</details>
""")
_TEAM = say.template("""<label>[[Team]] <select name="team">{}</select></label>""")
_TONES: Final[Mapping[str, str]] = {
    sentence("active"): "good",
    sentence("disabled"): "warn",
    sentence("not yet valid"): "warn",
    sentence("expired"): "bad",
    sentence("ignored"): "bad",
    sentence("unknown team"): "bad",
    sentence("revoked"): "",
}
_URGENT: Final = {
    "1": sentence("1: all"),
    "2": "2",
    "3": "3",
    "4": "4",
    "5": sentence("5: least urgent only"),
}


class KeyPage(Struct, frozen=True, kw_only=True):
    """What the list shows.

    who: looks at it. teams: of the configuration. fields: of a form that was refused, and why.
    """

    keys: Sequence[KeyView]
    who: Principal
    teams: Sequence[str]
    now: datetime
    q: str = ""
    all: bool = False
    fields: Mapping[str, str] = {}
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
        make=_make(page) if not page.trouble else Markup(),
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
        used=NONE if key.source == "file" else ago(key.last_used, now, say("never")),
        expires=NONE if key.source == "file" else ago(key.expires, now, say("never")),
    )


def _make(page: KeyPage) -> Markup:
    """The form, for who may issue a key: an operator, for its own teams."""
    teams = [name for name in page.teams if page.who.manages(name)]
    anyone = page.who.manages("")
    if not (teams or anyone):
        return Markup()
    fields = page.fields
    choices = {**({"": say("(none)")} if anyone else {}), **{name: name for name in teams}}
    return _MAKE.format(
        open=Markup(" open") if page.refused else "",
        problem=problem(page.refused),
        team=_TEAM.format(options(choices, fields.get("team", ""))),
        rules=rule_fields(fields.get("limits", ""), fields.get("budgets", "")),
        priority=options(
            {value: say(label) for value, label in _URGENT.items()},
            fields.get("max_priority", str(MOST_URGENT)),
        ),
        **{
            name: fields.get(name, "")
            for name in ("name", "user", "models", "tags", "expires", "allowed_networks")
        },
    )
