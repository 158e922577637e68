"""One request: how it ended and why, its attempts over time, what it cost, and its payload."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.page.formatting import ms
from strowger_gateway.gateway.console.admin.request_log.links import request_link, with_filters
from strowger_gateway.gateway.console.admin.request_log.views import AttemptView, RequestView
from strowger_gateway.gateway.console.admin.request_views.list_section import cost_of
from strowger_gateway.gateway.platform.language import sentence, words_of
from strowger_gateway.gateway.storage.sql.request_log.filters import is_failed

say = words_of(__file__)

_FINE: Final = ("ok", "cancelled", "lost", "")
_SECTION = say.template("""
<section id="request" aria-label="[[Request]]">
<p class="pages"><a href="/admin/view/requests">[[All requests]]</a></p>
<div class="card about"><h2>{title}</h2>
<p><span class="state {tone}">{outcome}</span> {why}</p>
<p class="quiet">{how}</p>
</div>
{attempts}
<div class="split">
<div class="card about"><h2>[[Details]]</h2><dl class="pairs rows">{pairs}</dl></div>
{payload}
</div>
</section>
""")
_ATTEMPTS = say.template("""<div class="card table"><header><h2>[[Attempts]]</h2>
<p class="facts">[[One after the other; pauses in between are not recorded.]]</p></header>
<ol class="timeline">{}</ol></div>""")
_ATTEMPT = Markup("""<li><span class="label"><a href="{path}">{backend}</a>
<span class="quiet">{outcome}</span></span>
<svg class="bars" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
<rect x="{begin}" width="{width}" height="10" class="{tone}"/></svg>
<span class="n">{took}</span></li>""")
_PAIR = Markup("<div><dt>{}</dt><dd>{}</dd></div>")
_LINK = Markup('<a href="{}">{}</a>')
_PAYLOAD = say.template("""<div class="card about"><h2>[[Payload]]</h2>{}</div>""")
_SHOW = say.template("""<p>[[The bodies of this request are in the store. Reading them is recorded
in the audit log.]]</p>
<p><a class="button" href="{path}?payload=true">[[Show request and answer]]</a>
<a href="/admin/payloads/{id}">JSON</a></p>""")
_NO_PAYLOAD = say.template("""<p class="empty">[[No bodies of this request are in the store: see
logging.payloads, and store.keep_payload_days.]]</p>""")
_NOT_ALLOWED = say.template("""<p class="empty">[[The role admin sees payloads.]]</p>""")
_CODE = Markup('<pre class="code" tabindex="0">{}</pre>')


class ShownRequest(Struct, frozen=True, kw_only=True):
    """What the view shows.

    payload: path of the bodies in the API, "" if there are none. may_read: the role may see them.
    record:  the payload as JSON, if it was asked for; `None` otherwise.
    """

    request: RequestView
    payload: str
    may_read: bool
    record: str | None = None


def detail_section(part: ShownRequest) -> Markup:
    one = part.request
    failed = is_failed(one)
    why = f"{one.param}: {one.message}" if one.param and one.message else one.message
    return _SECTION.format(
        title=say("Request {id}", id=one.request_id),
        tone="bad" if failed else "warn" if one.status >= 400 else "good",
        outcome=f"{one.status} {one.error}".strip(),
        why=why or one.refused,
        how=" ".join(_how(one)),
        attempts=_ATTEMPTS.format(Markup().join(_attempts(one))) if one.attempts else "",
        pairs=Markup().join(_PAIR.format(say(name), value) for name, value in _pairs(one)),
        payload=_PAYLOAD.format(_payload(part)),
    )


def _how(one: RequestView) -> Iterator[str]:
    if one.source == "store":
        yield say("The decisions about it are not recorded: candidates, rules, backends left out.")
        return
    if one.rule is not None:
        yield say("Rule {number} selected the backends.", number=one.rule + 1)
    if one.candidates:
        yield say("Candidates in order: {names}.", names=", ".join(one.candidates))
    for out in one.ruled_out:
        yield say("Left out: {backend}, {reason}.", backend=out.backend, reason=out.reason)
    if one.excluded is not None:
        yield say("Not in an experiment: {reason}.", reason=one.excluded.reason)


def _attempts(one: RequestView) -> Iterator[Markup]:
    """A hedge begins after the attempt before it; all others when that has ended."""
    whole = max(one.ms, _sum(one.attempts), 1.0)
    at = 0.0
    for attempt in one.attempts:
        begin = max(0.0, whole - attempt.ms) if attempt.hedge else at
        outcome = attempt.outcome or "ok"
        if attempt.refused:
            outcome = say("not sent: its API cannot express this request")
        elif attempt.hedge:
            outcome = say("{outcome}, hedge", outcome=outcome)
        fine = attempt.outcome in _FINE
        yield _ATTEMPT.format(
            path=with_filters({"backend": attempt.backend}),
            backend=attempt.backend,
            outcome=outcome,
            begin=f"{100 * begin / whole:.2f}",
            width=f"{max(0.5, 100 * attempt.ms / whole):.2f}",
            tone="good" if fine else "warn" if attempt.refused else "bad",
            took=ms(attempt.ms),
        )
        if not attempt.hedge:
            at += attempt.ms


def _sum(attempts: Sequence[AttemptView]) -> float:
    return sum(attempt.ms for attempt in attempts if not attempt.hedge)


def _pairs(one: RequestView) -> Iterator[tuple[str, Markup | str]]:
    ended = datetime.fromtimestamp(one.time, UTC)
    yield sentence("Ended"), ended.isoformat(sep=" ", timespec="milliseconds")
    yield sentence("Duration"), ms(one.ms)
    if one.ttft_ms is not None:
        yield sentence("First token"), ms(one.ttft_ms)
    yield sentence("Cost of all attempts"), cost_of(one)
    if one.completion_tokens is not None:
        tokens = say(
            "{tokens} tokens in, {out} out",
            tokens=f"{one.prompt_tokens or 0:,}",
            out=f"{one.completion_tokens:,}",
        )
        yield sentence("Tokens"), tokens
    yield from _links(one)
    if one.stream:
        yield sentence("Streamed"), say("yes")
    if one.cache:
        yield sentence("Cache"), one.cache
    if one.budget:
        yield sentence("Budget"), one.budget
    if one.dropped:
        yield sentence("Dropped fields"), ", ".join(one.dropped)
    if one.repaired:
        yield sentence("Repairs"), ", ".join(one.repaired)
    for name, value in one.attributes.items():
        yield name, str(value)


def _links(one: RequestView) -> Iterator[tuple[str, Markup | str]]:
    values = (
        (sentence("Model"), "model", one.route or one.model),
        (sentence("Key"), "key", one.key),
        (sentence("Team"), "team", one.team),
        (sentence("End user"), "end_user", one.end_user),
        (sentence("Client program"), "client", one.client),
        (sentence("API"), "surface", one.surface),
        (sentence("Experiment"), "experiment", one.experiment),
        (sentence("Variant"), "variant", one.variant),
        (sentence("Client's id"), "id", one.client_request_id),
    )
    for label, name, value in values:
        if value:
            yield label, _LINK.format(with_filters({name: value}), value)
    tags = dict.fromkeys([*one.tags, *one.request_tags])
    if tags:
        links = [_LINK.format(with_filters({"tag": tag}), tag) for tag in tags]
        yield sentence("Tags"), Markup(", ").join(links)


def _payload(part: ShownRequest) -> Markup:
    if not part.may_read:
        return _NOT_ALLOWED.format()
    if part.record is not None:
        return _CODE.format(msgspec.json.format(part.record.encode(), indent=2).decode())
    if part.payload:
        id = part.request.request_id
        return _SHOW.format(path=request_link(id), id=id)
    return _NO_PAYLOAD.format()
