"""The recent requests section: which backend answered, after which attempts, and why."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from markupsafe import Markup

from strowger_gateway.gateway.config.schema.payloads import Payloads
from strowger_gateway.gateway.console.admin.page.formatting import ms
from strowger_gateway.gateway.console.admin.request_log.links import LIST, request_link
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.gateway.routing.request_record import AttemptRecord

say = words_of(__file__)

_SECTION = say.template("""
<section id="decisions" data-live aria-labelledby="h-decisions">
<h2 id="h-decisions">[[Recent requests]]</h2>
<div class="card list">{rows}</div>
<p class="pages"><a href="{all}">[[All requests]]</a></p>
</section>
""")
_ROW = Markup("""
<details id="r-{id}"><summary>
<time datetime="{iso}">{clock}</time>
<span class="model">{model}</span>
<span class="to">{backend}</span>
<span class="tags">{tags}</span>
<span class="n took">{took}</span>
</summary>
<p>{summary}</p>
<ol class="attempts">{attempts}</ol>
{ruled_out}
<dl class="pairs">{pairs}</dl>
</details>
""")
_TAG = Markup('<span class="tag {tone}">{words}</span>')
_ATTEMPT = Markup(
    '<li><span class="state {tone}">{outcome}</span> {backend} '
    '<span class="quiet">{more}</span></li>'
)
_PAIR = Markup("<div><dt>{}</dt><dd>{}</dd></div>")
_LINK = say.template("""<div><dt>[[Payload]]</dt><dd><a href="{path}">[[request and
answer]]</a></dd></div>""")
_ID = Markup('<a href="{}">{}</a>')
_OUTS = Markup('<ul class="attempts">{}</ul>')
_OUT = say.template(
    """<li><span class="state">[[ruled out]]</span> {} <span class="quiet">{}</span></li>"""
)
_NO_PAYLOADS = Payloads()
_FINE = ("ok", "cancelled", "lost", "")
_EMPTY = say.template("""<p class="empty">[[No requests yet. Send a message below, or point a
client at this
gateway.]]</p>""")


def recent_requests_section(
    decisions: Sequence[RecentRequest], payloads: Payloads = _NO_PAYLOADS
) -> Markup:
    """Render the section. decisions: newest first. payloads: the settings, for links to bodies."""
    rows = Markup().join(_row(decision, payloads) for decision in decisions)
    return _SECTION.format(rows=rows if decisions else _EMPTY.format(), all=LIST)


def _row(decision: RecentRequest, payloads: Payloads) -> Markup:
    line = decision.line
    at = datetime.fromtimestamp(line.time, UTC)
    return _ROW.format(
        id=line.request_id,
        iso=at.isoformat(timespec="milliseconds"),
        clock=at.strftime("%H:%M:%S"),
        model=line.model or line.route or "–",
        backend=line.backend or say("(no backend)"),
        tags=_tags(decision),
        took=ms(line.ms),
        summary=_summary(decision),
        attempts=Markup().join(_attempt(attempt) for attempt in line.attempts),
        ruled_out=_ruled_out(decision),
        pairs=_pairs(line) + _payload(line, payloads),
    )


def _tags(decision: RecentRequest) -> Markup:
    line = decision.line
    tags: list[tuple[str, str]] = []
    if line.variant:
        tags.append(("accent", line.variant))
    if decision.excluded is not None:
        tags.append(("", say("excluded")))
    if line.cache == "hit":
        tags.append(("accent", say("cached")))
    tried = sum(not attempt.refused for attempt in line.attempts)
    if tried > 1:
        tags.append(("warn", say("{count} attempts", count=tried)))
    if line.status >= 400 or line.error:
        tags.append(("bad", line.error or str(line.status)))
    return Markup().join(_TAG.format(tone=tone, words=words) for tone, words in tags)


def _summary(decision: RecentRequest) -> str:
    """Where the request went and why, and whether it counts in an experiment."""
    sentences = _outcome(decision) if decision.line.attempts else [_not_tried(decision)]
    apart = decision.excluded
    if apart is not None:
        sentences.append(
            say(
                "Excluded from {experiment}: {reason}.",
                experiment=apart.experiment,
                reason=apart.reason,
            )
        )
    elif decision.line.fallback:
        sentences.append(say("It still counts for {variant}.", variant=decision.line.variant))
    return " ".join(sentences)


def _not_tried(decision: RecentRequest) -> str:
    line = decision.line
    if line.cache == "hit":
        return say("The cache answered, with what {backend} had generated.", backend=line.backend)
    why = decision.refused or line.error or say("status {status}", status=line.status)
    return say("No backend was tried: {why}.", why=why.rstrip("."))


def _outcome(decision: RecentRequest) -> list[str]:
    line, parts = decision.line, list[str]()
    if decision.rule is not None:
        parts.append(
            say(
                "Rule {number} of {model} selected the backends.",
                number=decision.rule + 1,
                model=line.route,
            )
        )
    first = decision.candidates[0] if decision.candidates else line.attempts[0].backend
    parts.append(say("First candidate: {backend}.", backend=first))
    parts += _error_fallbacks(decision)
    if line.status == 499:
        parts.append(say("The client disconnected before the response was complete."))
    elif line.error and line.status < 400:
        parts.append(
            say(
                "{backend} broke off during the response: {why}.",
                backend=line.backend,
                why=line.error,
            )
        )
    elif line.error:
        parts.append(say("No backend answered; the last error was {why}.", why=line.error))
    else:
        parts.append(_answered(line))
    tried = {one.backend for one in line.attempts}
    left = [name for name in decision.candidates if name not in tried]
    if left and tried <= {*decision.candidates}:
        parts.append(say("Not tried: {backends}.", backends=", ".join(left)))
    return parts


def _error_fallbacks(decision: RecentRequest) -> list[str]:
    """Error codes that led to other models than the candidates: `fallback_by_error`."""
    return [
        say(
            "After {why}, {backend} replaced the other candidates.",
            why=before.outcome,
            backend=one.backend,
        )
        for before, one in pairwise(decision.line.attempts)
        if decision.candidates
        and one.backend not in decision.candidates
        and before.backend in decision.candidates
    ]


def _answered(line: AccessLine) -> str:
    failed = [one.backend for one in line.attempts if one.outcome not in _FINE]
    late = [one.backend for one in line.attempts if one.outcome == "lost" and not one.hedge]
    spare = [one.backend for one in line.attempts if one.outcome == "lost" and one.hedge]
    if failed:
        return say(
            "{backend} answered after {failed} failed.",
            backend=line.backend,
            failed=", ".join(dict.fromkeys(failed)),
        )
    if late:
        return say(
            "{backend} was tried as a hedge because {late} was late, and answered first.",
            backend=line.backend,
            late=late[0],
        )
    if spare:
        return say(
            "{backend} was late, but answered before the hedge {spare}.",
            backend=line.backend,
            spare=spare[0],
        )
    return say("{backend} answered.", backend=line.backend)


def _ruled_out(decision: RecentRequest) -> Markup:
    if not decision.ruled_out:
        return Markup()
    rows = [_OUT.format(backend, reason) for backend, reason in decision.ruled_out]
    return _OUTS.format(Markup().join(rows))


def _attempt(attempt: AttemptRecord) -> Markup:
    fine = attempt.outcome in _FINE
    more = (
        [ms(attempt.ms)]
        if not attempt.refused
        else [say("not sent: its API cannot express this request")]
    )
    if attempt.provider_key:
        more.append(attempt.provider_key)
    if attempt.hedge:
        more.append(say("hedge"))
    if attempt.role == "mirror":
        more.append(say("mirrored"))
    return _ATTEMPT.format(
        tone="good" if fine else "warn" if attempt.refused else "bad",
        outcome=attempt.outcome or "ok",
        backend=attempt.backend,
        more=" · ".join(more),
    )


def _payload(line: AccessLine, payloads: Payloads) -> Markup:
    """Link to the stored bodies of a request, if it may have some."""
    failed = line.status >= 400 or bool(line.error)
    stored = payloads.mode in ("all", "sample") or (payloads.mode == "errors" and failed)
    return (
        _LINK.format(path=request_link(line.request_id))
        if stored and payloads.to == "store"
        else Markup()
    )


def _pairs(line: AccessLine) -> Markup:
    tokens = ""
    if line.completion_tokens is not None:
        tokens = say(
            "{prompt:,} in, {completion:,} out",
            prompt=line.prompt_tokens or 0,
            completion=line.completion_tokens,
        )
    pairs = {
        say("First token"): "" if line.ttft_ms is None else ms(line.ttft_ms),
        say("Tokens"): tokens + (say(" (estimated)") if line.usage_source == "estimated" else ""),
        say("Cost"): "" if line.cost_usd is None else f"${line.cost_usd:.6f}",
        say("Dropped fields"): ", ".join(line.dropped),
        say("Repairs"): ", ".join(line.repaired),
        say("Experiment"): f"{line.experiment}: {line.variant}" if line.variant else "",
        say("Route"): line.route,
        say("Key"): line.key,
        say("Surface"): f"{line.surface} {line.task}".strip()
        + (say(", streamed") if line.stream else ""),
        say("Status"): str(line.status),
        say("Request id"): _ID.format(request_link(line.request_id), line.request_id),
    }
    pairs |= {say(_label(name)): str(value) for name, value in (line.attributes or {}).items()}
    return Markup().join(_PAIR.format(name, value) for name, value in pairs.items() if value)


def _label(name: str) -> str:
    """Return the name of an attribute as a label."""
    return name.replace("_", " ").capitalize()
