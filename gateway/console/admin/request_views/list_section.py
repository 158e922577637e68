"""The list of requests: filters, what the matching ones came to, and a row for each."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.governance.markup import dollars, options, problem
from strowger_gateway.gateway.console.admin.page.formatting import ms
from strowger_gateway.gateway.console.admin.request_log.links import request_link, with_filters
from strowger_gateway.gateway.console.admin.request_log.listing import RequestList
from strowger_gateway.gateway.console.admin.request_log.parameters import (
    LONGEST,
    FilterParameters,
)
from strowger_gateway.gateway.console.admin.request_log.views import RequestView
from strowger_gateway.gateway.platform.language import sentence, words_of
from strowger_gateway.gateway.storage.sql.request_log.filters import is_failed
from strowger_gateway.gateway.storage.sql.request_log.search import Totals

say = words_of(__file__)

WHY_CHARS: Final = 140
LIVE_S: Final = 2

_STATUSES: Final[Mapping[str, str]] = {
    "": sentence("all"),
    "failed": sentence("failed, for whatever reason"),
    "error": sentence("errors of backends"),
    "client_error": sentence("errors of clients"),
    "refused": sentence("refused by a rule"),
    "ok": sentence("answered"),
    "4xx": "4xx",
    "5xx": "5xx",
    "429": "429",
    "499": sentence("499: client disconnected"),
}
_TEXTS: Final[Mapping[str, str]] = {
    "since": sentence("Since"),
    "team": sentence("Team"),
    "key": sentence("Key"),
    "model": sentence("Model"),
    "backend": sentence("Backend"),
    "id": sentence("Request id"),
}
_MORE: Final[Mapping[str, str]] = {
    "until": sentence("Until"),
    "error": sentence("Error code"),
    "client": sentence("Client program"),
    "tag": sentence("Tag"),
    "end_user": sentence("End user"),
    "experiment": sentence("Experiment"),
    "variant": sentence("Variant"),
    "surface": sentence("API"),
}
_FLAGS: Final[Mapping[str, str]] = {
    "stream": sentence("Streamed"),
    "payload": sentence("Payload in the store"),
}
_ANSWERS: Final[Mapping[str, str]] = {
    "": sentence("all"),
    "true": sentence("yes"),
    "false": sentence("no"),
}
_HINTS: Final[Mapping[str, str]] = {
    "since": "15m, 02:50, 2026-11-30T02:50",
    "until": "5m, 03:30",
    "backend": "openai/gpt-5",
}
_SECTION = say.template("""
<section id="requests" aria-label="[[Requests]]"{live}>
{problem}
<form class="row filters" method="get" action="/admin/view/requests">
<label>[[Outcome]] <select name="status">{statuses}</select></label>
{texts}
<details class="more"{open}><summary>[[More filters]]</summary>
<div class="row">{more}</div></details>
<button class="primary">[[Show]]</button>
</form>
{chosen}
{body}
</section>
""")
_TEXT = Markup("""<label>{label} <input name="{name}" value="{value}" maxlength="{longest}"
 placeholder="{hint}" autocomplete="off" spellcheck="false"></label>""")
_SELECT = Markup('<label>{label} <select name="{name}">{options}</select></label>')
_CHOSEN = say.template("""<p class="chips">{chips}
<a href="/admin/view/requests">[[Remove all filters]]</a></p>""")
_CHIP = Markup('<a class="tag accent" href="{path}" title="{remove}">{label}: {value} ×</a>')
_BODY = say.template("""
<div class="card table plain requests">
<header><h2>{title}</h2><p class="facts">{facts}</p>
<a class="button" href="{live}">{toggle}</a>
<a class="button" href="{csv}" download="requests.csv">CSV</a>
<a class="button" href="{jsonl}" download="requests.jsonl">JSON</a></header>
{table}
</div>
{notes}
<nav class="pages" aria-label="[[Pages]]">{pages}</nav>
""")
_TABLE = say.template("""<table>
<thead><tr><th scope="col">[[Ended (UTC)]]</th><th scope="col">[[Outcome]]</th>
<th scope="col">[[Model]]</th><th scope="col">[[Backend]]</th><th scope="col">[[Key]]</th>
<th scope="col">[[Client]]</th><th scope="col" class="n">[[Duration]]</th>
<th scope="col" class="n">[[Cost]]</th></tr></thead>
<tbody>{rows}</tbody>
</table>""")
_ROW = say.template("""<tr>
<th scope="row"><a href="{path}"><time datetime="{iso}" title="{iso}">{ended}</time></a></th>
<td data-label="[[Outcome]]"><span>{outcome}{why}</span></td>
<td data-label="[[Model]]">{model}</td>
<td data-label="[[Backend]]"><span>{backend}</span></td>
<td data-label="[[Key]]"><span>{key}</span></td>
<td data-label="[[Client]]">{client}</td>
<td data-label="[[Duration]]" class="n">{took}</td>
<td data-label="[[Cost]]" class="n">{cost}</td>
</tr>""")
_LINK = Markup('<a href="{}">{}</a>')
_STATE = Markup('<a class="state {tone}" href="{path}">{words}</a>')
_WHY = Markup(' <span class="quiet why">{}</span>')
_EMPTY = say.template("""<p class="empty">[[No request matches. Requests are here a second or two
after their end; take a filter away, or look further back.]]</p>""")
_OLDER = say.template('<a class="button" href="{}">[[Older]]</a>')
_NEWEST = say.template('<a class="button" href="{}">[[Newest]]</a>')
_FURTHER = say.template('<a class="button primary" href="{}">[[Search further back]]</a>')
_NOTE = Markup('<p class="verdict warn" role="status">{}</p>')


class ShownRequests(Struct, frozen=True, kw_only=True):
    """What the view shows. found: `None` if it could not be read, and why it was refused.

    given: the filters as typed. after: the place in the list, "" for the newest.
    live:  it refreshes by itself.
    payloads: the reader may see which requests have one.
    """

    given: FilterParameters
    found: RequestList | None = None
    after: str = ""
    live: bool = False
    payloads: bool = False
    refused: str = ""


def list_section(part: ShownRequests) -> Markup:
    given = filters_of(part.given)
    return _SECTION.format(
        live=Markup(' data-live data-every="{}"').format(LIVE_S) if part.live else "",
        problem=problem(part.refused) if part.refused else "",
        statuses=options(_statuses(part.given.status), part.given.status),
        texts=Markup().join(_text(name, label, given) for name, label in _TEXTS.items()),
        open=Markup(" open") if any(given.get(name) for name in (*_MORE, *_FLAGS)) else "",
        more=Markup().join(_more(part, given)),
        chosen=_chosen(given),
        body="" if part.found is None else _body(part, part.found, given),
    )


def filters_of(given: FilterParameters) -> dict[str, str]:
    """Return the filters that are set, as typed."""
    values = {name: getattr(given, name).strip() for name in FilterParameters.__struct_fields__}
    return {name: value for name, value in values.items() if value}


def _statuses(chosen: str) -> Mapping[str, str]:
    """With another code, if the address has one."""
    known = {value: say(label) for value, label in _STATUSES.items()}
    return known if chosen in known else {**known, chosen: chosen}


def _text(name: str, label: str, given: Mapping[str, str]) -> Markup:
    return _TEXT.format(
        label=say(label),
        name=name,
        value=given.get(name, ""),
        longest=LONGEST,
        hint=_HINTS.get(name, ""),
    )


def _more(part: ShownRequests, given: Mapping[str, str]) -> Iterator[Markup]:
    for name, label in _MORE.items():
        yield _text(name, label, given)
    answers = {value: say(label) for value, label in _ANSWERS.items()}
    for name, label in _FLAGS.items():
        if name != "payload" or part.payloads:
            chosen = options(answers, given.get(name, ""))
            yield _SELECT.format(label=say(label), name=name, options=chosen)


def _chosen(given: Mapping[str, str]) -> Markup:
    """Each filter as a link without it."""
    labels = {"status": sentence("Outcome"), **_TEXTS, **_MORE, **_FLAGS}
    if not given:
        return Markup()
    return _CHOSEN.format(
        chips=Markup(" ").join(
            _CHIP.format(
                path=with_filters({**given, name: ""}),
                remove=say("Remove this filter"),
                label=say(labels[name]),
                value=_said(name, value),
            )
            for name, value in given.items()
        )
    )


def _said(name: str, value: str) -> str:
    """Return a filter's value as the form shows it."""
    known = _STATUSES if name == "status" else _ANSWERS if name in _FLAGS else {}
    return say(known[value]) if value in known else value


def _body(part: ShownRequests, found: RequestList, given: Mapping[str, str]) -> Markup:
    live = with_filters({**given, "live": "" if part.live else "true"})
    return _BODY.format(
        title=say("Live") if part.live else say("Newest first"),
        facts="" if found.totals is None else _facts(found.totals),
        live=live,
        toggle=say("Stop following") if part.live else say("Follow live"),
        csv=_export(given, "csv"),
        jsonl=_export(given, "jsonl"),
        table=_TABLE.format(rows=Markup().join(_row(one, given) for one in found.requests))
        if found.requests
        else _EMPTY.format()
        if not found.searched
        else "",
        notes=Markup().join(_NOTE.format(one) for one in _notes(found)),
        pages=_pages(part, found, given),
    )


def _export(given: Mapping[str, str], form: str) -> str:
    return f"/admin/requests/export?{urlencode({**given, 'format': form})}"


def _facts(totals: Totals) -> str:
    facts = [
        say("{count} requests", count=f"{totals.requests:,}"),
        say("{count} failed", count=f"{totals.failed:,}"),
        say(
            "{tokens} tokens in, {out} out",
            tokens=f"{totals.prompt_tokens:,}",
            out=f"{totals.completion_tokens:,}",
        ),
        say("{cost} for all attempts", cost=dollars(round(totals.cost_usd * 1e9))),
    ]
    if totals.unpriced:
        facts.append(say("{count} without a known cost", count=f"{totals.unpriced:,}"))
    if totals.since is not None:
        facts.insert(0, say("More match; the newest, since {time}:", time=_time(totals.since)))
    return " · ".join(facts)


def _notes(found: RequestList) -> Iterator[str]:
    if found.incomplete:
        yield say(
            "Only what this gateway remembers, not the requests of others: {why}",
            why=found.incomplete,
        )
    if found.searched:
        yield say("The search has come so far, and has not found a whole page yet.")


def _pages(part: ShownRequests, found: RequestList, given: Mapping[str, str]) -> Markup:
    links = list[Markup]()
    if part.after:
        links.append(_NEWEST.format(with_filters(given)))
    if found.next:
        link = _FURTHER if found.searched else _OLDER
        links.append(link.format(with_filters({**given, "after": found.next})))
    return Markup(" ").join(links)


def _row(one: RequestView, given: Mapping[str, str]) -> Markup:
    def link(name: str, value: str, shown: str = "") -> Markup:
        path = with_filters({**given, name: value})
        return _LINK.format(path, shown or value) if value else Markup("–")

    why = one.message or one.refused
    tried = dict.fromkeys([*(attempt.backend for attempt in one.attempts), one.backend])
    backends = [link("backend", backend) for backend in tried if backend]
    failed = is_failed(one)
    tone = "bad" if failed else "warn" if one.status >= 400 else "good"
    filters = {"error": one.error} if one.error else {"status": str(one.status)}
    return _ROW.format(
        path=request_link(one.request_id),
        iso=datetime.fromtimestamp(one.time, UTC).isoformat(timespec="milliseconds"),
        ended=_time(one.time),
        outcome=_STATE.format(
            tone=tone,
            path=with_filters({**given, **filters}),
            words=f"{one.status} {one.error}".strip(),
        ),
        why=_WHY.format(why[:WHY_CHARS]) if why and (failed or one.status >= 400) else "",
        model=link("model", one.route or one.model, one.model),
        backend=Markup(" → ").join(backends) or say("(no backend)"),
        key=Markup(" · ").join(
            [link("key", one.key), *([link("team", one.team)] if one.team else [])]
        ),
        client=link("client", one.client),
        took=ms(one.ms),
        cost=cost_of(one),
    )


def cost_of(one: RequestView) -> str:
    """Return the cost of all attempts for people, `–` if it is unknown."""
    if one.total_cost_usd is None:
        return "–"
    return dollars(round(one.total_cost_usd * 1e9))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%m-%d %H:%M:%S")
