"""The audit log: who changed what, with filters."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, get_args
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.audit.event import LONGEST, Action
from strowger_gateway.gateway.console.admin.audit import AuditEntry, AuditPage
from strowger_gateway.gateway.console.admin.governance.markup import ago, options, problem
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

_SECTION = say.template("""
<section id="audit" aria-label="[[Audit log]]">
{problem}
<form class="row filters" method="get" action="/admin/view/audit">
<label>[[Action]] <select name="action">{actions}</select></label>
<label class="grow">[[Who]] <input name="actor" value="{actor}" maxlength="{longest}"
 autocomplete="off" placeholder="[[a name, or a kind such as cli]]"></label>
<label>[[Target]] <input name="target" value="{target}" maxlength="{longest}" autocomplete="off">
</label>
<label>[[Since]] <input name="since" type="date" value="{since}"></label>
<button class="primary">[[Show]]</button>
</form>
<div class="card table plain audit">{table}</div>
{more}
</section>
""")
_TABLE = say.template("""<table>
<thead><tr><th scope="col">[[Action]]</th><th scope="col">[[When]]</th><th scope="col">[[Who]]</th>
<th scope="col">[[From]]</th><th scope="col">[[What]]</th><th scope="col">[[Outcome]]</th>
</tr></thead>
<tbody>{rows}</tbody>
</table>""")
_ROW = say.template("""<tr>
<th scope="row">{action}{count}</th>
<td data-label="[[When]]">{when}</td>
<td data-label="[[Who]]">{who}</td>
<td data-label="[[From]]">{address}</td>
<td data-label="[[What]]"><span>{target}{detail}</span></td>
<td data-label="[[Outcome]]"><span class="state {tone}">{outcome}</span></td>
</tr>""")
_COUNT = say.template(""" <span class="tag">[[{:,} times]]</span>""")
_DETAIL = Markup("<details><summary>{}</summary><ul>{}</ul></details>")
_LINE = Markup("<li>{}</li>")
_NONE = say.template("""<p class="empty">[[No entry matches.]]</p>""")
_OLDER = say.template(
    """<p class="pages"><a class="button" href="/admin/view/audit?{}">[[Older]]</a></p>"""
)
_TONES: Final = {
    sentence("done"): "good",
    sentence("refused"): "warn",
    sentence("failed"): "bad",
}
_NAMES: Final[tuple[str, ...]] = get_args(Action)


class ShownAudit(Struct, frozen=True, kw_only=True):
    """What the part shows. page: `None` if it could not be read, and why."""

    page: AuditPage | None
    now: datetime
    action: str = ""
    actor: str = ""
    target: str = ""
    since: str = ""
    refused: str = ""


def audit_section(part: ShownAudit) -> Markup:
    return _SECTION.format(
        problem=problem(part.refused),
        actions=options(_choices(), part.action),
        actor=part.actor,
        target=part.target,
        longest=LONGEST,
        since=part.since,
        table=_table(part),
        more=_more(part),
    )


def _choices() -> Mapping[str, str]:
    """All actions, each group before its actions."""
    found = {"": say("all")}
    for name in _NAMES:
        group = name.partition(".")[0]
        found.setdefault(group, say("{group}: all", group=group))
        found[name] = name
    return found


def _table(part: ShownAudit) -> Markup:
    if part.page is None:
        return Markup()
    if not part.page.rows:
        return _NONE.format()
    return _TABLE.format(rows=Markup().join(_row(one, part.now) for one in part.page.rows))


def _row(one: AuditEntry, now: datetime) -> Markup:
    lines = list(_lines(one))
    detail = (
        _DETAIL.format(say("details"), Markup().join(map(_LINE.format, lines))) if lines else ""
    )
    return _ROW.format(
        action=one.action,
        count=_COUNT.format(one.count) if one.count > 1 else "",
        when=ago(datetime.fromisoformat(one.time), now),
        who=one.actor or one.actor_kind.replace("_", " "),
        address=one.address or "–",
        target=one.target or "–",
        detail=detail,
        tone=_TONES.get(one.outcome, ""),
        outcome=say(one.outcome),
    )


def _lines(one: AuditEntry) -> Iterator[str]:
    if one.reason:
        yield one.reason
    for change in one.changes:
        yield f"{change.field}: {_value(change.old)} → {_value(change.new)}"
    for name, value in one.facts.items():
        yield f"{name}: {value}"


def _value(text: str | None) -> str:
    return say("(none)") if text is None else text


def _more(part: ShownAudit) -> Markup:
    if part.page is None or part.page.before is None:
        return Markup()
    asked = {"action": part.action, "actor": part.actor, "target": part.target, "since": part.since}
    given = {name: value for name, value in asked.items() if value}
    return _OLDER.format(urlencode({**given, "before": part.page.before}))
