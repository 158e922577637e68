"""The view of the configuration: what is rejected, the settings with a filter, and the reloads."""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup

from strowger_gateway.gateway.audit.event import Change
from strowger_gateway.gateway.config.settings.setting import Only, Setting
from strowger_gateway.gateway.console.admin.governance.markup import ago, options
from strowger_gateway.gateway.console.configuration.answer import ConfigInForce, SettingsAsked
from strowger_gateway.gateway.parts.reload_result import Outcome, ReloadResult
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

_SECTION: Final = Markup("""
<section id="config" aria-labelledby="h-config">
<h2 id="h-config">{title}</h2>
{rejected}
<div class="card table plain">
<header><h3>{file}</h3><p class="facts">{facts}</p>
<a class="button" href="/admin/view/gateways">{others}</a></header>
</div>
<form class="row filters" method="get" action="/admin/view/config">
<label class="grow">{search_label} <input name="search" type="search" value="{search}"
 maxlength="200" autocomplete="off"></label>
<label>{section_label} <select name="section">{chosen}</select></label>
<label>{only_label} <select name="only">{only}</select></label>
<button class="primary">{show}</button>
</form>
<div class="card table plain settings">{table}</div>
{pages}
</section>
<section id="reloads" aria-labelledby="h-reloads">
<h2 id="h-reloads">{reloads_title}</h2>
{reloads}
<p><a href="/admin/view/audit?action=config.reload">{audit}</a></p>
</section>
""")
_TABLE: Final = Markup("""<table>
<thead><tr><th scope="col">{key}</th><th scope="col">{value}</th><th scope="col">{origin}</th>
<th scope="col">{default}</th></tr></thead>
<tbody>{rows}</tbody>
</table>""")
_ROW: Final = Markup("""<tr>
<th scope="row"><code>{path}</code></th>
<td data-label="{value_label}">{value}</td>
<td data-label="{origin_label}">{origin}</td>
<td data-label="{default_label}">{default}</td>
</tr>""")
_VALUE: Final = Markup("<code>{}</code>")
_QUIET: Final = Markup('<span class="quiet">{}</span>')
_EMPTY: Final = Markup('<p class="empty">{}</p>')
_REJECTED: Final = Markup('<div class="verdict bad" role="alert"><p>{}</p><ul>{}</ul></div>')
_LINE: Final = Markup("<li>{}</li>")
_PAGES: Final = Markup('<p class="pages">{}</p>')
_PAGE: Final = Markup('<a class="button" href="/admin/view/config?{}">{}</a> ')
_RELOAD: Final = Markup("""<details class="card"><summary>
 <span class="state {tone}">{outcome}</span>
 {when} · {trigger} · {count}</summary><ul>{lines}</ul></details>
""")
_CHANGE: Final = Markup("<li><code>{field}</code>: <code>{old}</code> → <code>{new}</code></li>")

_TONES: Final[dict[Outcome, str]] = {
    "applied": "good",
    "unchanged": "good",
    "rejected": "bad",
    "failed": "bad",
}
_OUTCOMES: Final[dict[Outcome, str]] = {
    "applied": sentence("in effect"),
    "unchanged": sentence("unchanged"),
    "rejected": sentence("rejected"),
    "failed": sentence("failed"),
}
_ONLY: Final[dict[Only, str]] = {
    "all": sentence("all settings"),
    "set": sentence("only what the file sets"),
    "default": sentence("only defaults"),
}
_LONGEST: Final = 400
"""Characters of a value; the API has all of it."""


def sections(found: ConfigInForce, asked: SettingsAsked) -> Markup:
    now = datetime.now(UTC)
    every = {"": say("all sections"), **{one: one for one in found.sections}}
    facts = say.markup(
        "hash {digest}, put into effect {when}",
        digest=_VALUE.format(found.digest),
        when=ago(datetime.fromtimestamp(found.since, UTC), now),
    )
    return _SECTION.format(
        title=say("Configuration in force"),
        rejected=_rejected(found.rejected),
        file=found.file,
        facts=facts,
        others=say("What differs in other gateways"),
        search_label=say("Key or value"),
        search=asked.search,
        section_label=say("Section"),
        chosen=options(every, asked.section),
        only_label=say("Show"),
        only=options({name: say(label) for name, label in _ONLY.items()}, asked.only),
        show=say("Show"),
        table=_table(found),
        pages=_pages(found, asked),
        reloads_title=say("Reloads since the start"),
        reloads=_reloads(found, now),
        audit=say("All reloads, in the audit log"),
    )


def _rejected(last: ReloadResult | None) -> Markup:
    if last is None:
        return Markup()
    return _REJECTED.format(
        say("The file was rejected; what follows is the configuration before it."),
        Markup().join(map(_LINE.format, last.problems)),
    )


def _table(found: ConfigInForce) -> Markup:
    if not found.settings:
        return _EMPTY.format(say("No setting matches."))
    return _TABLE.format(
        key=say("Key"),
        value=say("Value"),
        origin=say("From"),
        default=say("Default"),
        rows=Markup().join(map(_row, found.settings)),
    )


def _row(one: Setting) -> Markup:
    return _ROW.format(
        path=one.path,
        value_label=say("Value"),
        value=_text(one.value),
        origin_label=say("From"),
        origin=_origin(one),
        default_label=say("Default"),
        default=_text(one.default),
    )


def _text(value: str | None) -> Markup:
    if value is None:
        return _QUIET.format(say("not set"))
    if not value:
        return _QUIET.format(say("empty"))
    return _VALUE.format(value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…")


def _origin(one: Setting) -> str | Markup:
    names = ", ".join(one.names)
    match one.origin:
        case "default":
            return _QUIET.format(say("default"))
        case "command_line":
            return say("command line")
        case "environment":
            return say("variable {names}, line {line}", names=names, line=one.line)
        case "file":
            return say("file {names}, line {line}", names=names, line=one.line)
        case "config":
            return say("line {line}", line=one.line)


def _pages(found: ConfigInForce, asked: SettingsAsked) -> Markup:
    given = {"search": asked.search, "section": asked.section, "only": asked.only}
    query = {name: value for name, value in given.items() if value and value != "all"}
    if asked.limit != SettingsAsked().limit:
        query["limit"] = str(asked.limit)
    links = Markup()
    if asked.offset:
        before = max(0, asked.offset - asked.limit)
        links += _PAGE.format(urlencode({**query, "offset": before}), say("Previous"))
    end = asked.offset + len(found.settings)
    if end < found.total:
        links += _PAGE.format(urlencode({**query, "offset": end}), say("Next"))
    counted = say("{shown} of {total} settings", shown=len(found.settings), total=found.total)
    return _PAGES.format(links + _QUIET.format(counted))


def _reloads(found: ConfigInForce, now: datetime) -> Markup:
    if not found.reloads:
        return _EMPTY.format(say("None."))
    return Markup().join(_reload(one, now) for one in found.reloads)


def _reload(one: ReloadResult, now: datetime) -> Markup:
    lines = [_problem(text) for text in one.problems] + [_change(each) for each in one.changes]
    return _RELOAD.format(
        tone=_TONES[one.outcome],
        outcome=say(_OUTCOMES[one.outcome]),
        when=ago(datetime.fromtimestamp(one.time, UTC), now),
        trigger=one.trigger,
        count=say("{count} changes", count=len(one.changes)),
        lines=Markup().join(lines),
    )


def _problem(text: str) -> Markup:
    return _LINE.format(text)


def _change(one: Change) -> Markup:
    return _CHANGE.format(
        field=one.field,
        old=say("not set") if one.old is None else one.old,
        new=say("not set") if one.new is None else one.new,
    )
