"""The recent requests section: which backend answered, after which attempts, and why."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from markupsafe import Markup

from strowger_gateway.gateway.config.schema.payloads import Payloads
from strowger_gateway.gateway.console.admin.page.formatting import ms
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.routing.request_record import AttemptRecord

_SECTION = Markup("""
<section id="decisions" data-live aria-labelledby="h-decisions">
<h2 id="h-decisions">Recent requests</h2>
<div class="card list">{rows}</div>
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
_LINK = Markup(
    '<div><dt>Payload</dt><dd><a href="/admin/payloads/{id}">request and answer</a></dd></div>'
)
_OUTS = Markup('<ul class="attempts">{}</ul>')
_OUT = Markup('<li><span class="state">ruled out</span> {} <span class="quiet">{}</span></li>')
_NO_PAYLOADS = Payloads()
_FINE = ("ok", "cancelled", "lost", "")
_EMPTY = Markup(
    '<p class="empty">No requests yet. Send a message below, or point a client at this gateway.</p>'
)


def recent_requests_section(
    decisions: Sequence[RecentRequest], payloads: Payloads = _NO_PAYLOADS
) -> Markup:
    """Render the section. decisions: newest first. payloads: the settings, for links to bodies."""
    rows = Markup().join(_row(decision, payloads) for decision in decisions)
    return _SECTION.format(rows=rows if decisions else _EMPTY)


def _row(decision: RecentRequest, payloads: Payloads) -> Markup:
    line = decision.line
    at = datetime.fromtimestamp(line.time, UTC)
    return _ROW.format(
        id=line.request_id,
        iso=at.isoformat(timespec="milliseconds"),
        clock=at.strftime("%H:%M:%S"),
        model=line.model or line.route or "–",
        backend=line.backend or "(no backend)",
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
        tags.append(("", "excluded"))
    if line.cache == "hit":
        tags.append(("accent", "cached"))
    tried = sum(not attempt.refused for attempt in line.attempts)
    if tried > 1:
        tags.append(("warn", f"{tried} attempts"))
    if line.status >= 400 or line.error:
        tags.append(("bad", line.error or str(line.status)))
    return Markup().join(_TAG.format(tone=tone, words=words) for tone, words in tags)


def _summary(decision: RecentRequest) -> str:
    """Where the request went and why, and whether it counts in an experiment."""
    sentences = _outcome(decision) if decision.line.attempts else [_not_tried(decision)]
    apart = decision.excluded
    if apart is not None:
        sentences.append(f"Excluded from {apart.experiment}: {apart.reason}.")
    elif decision.line.fallback:
        sentences.append(f"It still counts for {decision.line.variant}.")
    return " ".join(sentences)


def _not_tried(decision: RecentRequest) -> str:
    line = decision.line
    if line.cache == "hit":
        return f"The cache answered, with what {line.backend} had generated."
    why = decision.refused or line.error or f"status {line.status}"
    return f"No backend was tried: {why.rstrip('.')}."


def _outcome(decision: RecentRequest) -> list[str]:
    line, parts = decision.line, list[str]()
    if decision.rule is not None:
        parts.append(f"Rule {decision.rule + 1} of {line.route} selected the backends.")
    first = decision.candidates[0] if decision.candidates else line.attempts[0].backend
    parts.append(f"First candidate: {first}.")
    parts += _error_fallbacks(decision)
    if line.status == 499:
        parts.append("The client disconnected before the response was complete.")
    elif line.error and line.status < 400:
        parts.append(f"{line.backend} broke off during the response: {line.error}.")
    elif line.error:
        parts.append(f"No backend answered; the last error was {line.error}.")
    else:
        parts.append(_answered(line))
    tried = {one.backend for one in line.attempts}
    left = [name for name in decision.candidates if name not in tried]
    if left and tried <= {*decision.candidates}:
        parts.append(f"Not tried: {', '.join(left)}.")
    return parts


def _error_fallbacks(decision: RecentRequest) -> list[str]:
    """Error codes that led to other models than the candidates: `fallback_by_error`."""
    return [
        f"After {before.outcome}, {one.backend} replaced the other candidates."
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
        return f"{line.backend} answered after {', '.join(dict.fromkeys(failed))} failed."
    if late:
        return (
            f"{line.backend} was tried as a hedge because {late[0]} was late, and answered first."
        )
    if spare:
        return f"{line.backend} was late, but answered before the hedge {spare[0]}."
    return f"{line.backend} answered."


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
        else ["not sent: its API cannot express this request"]
    )
    if attempt.hedge:
        more.append("hedge")
    if attempt.role == "mirror":
        more.append("mirrored")
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
    return _LINK.format(id=line.request_id) if stored and payloads.to == "store" else Markup()


def _pairs(line: AccessLine) -> Markup:
    tokens = ""
    if line.completion_tokens is not None:
        tokens = f"{line.prompt_tokens or 0:,} in, {line.completion_tokens:,} out"
    pairs = {
        "First token": "" if line.ttft_ms is None else ms(line.ttft_ms),
        "Tokens": tokens + (" (estimated)" if line.usage_source == "estimated" else ""),
        "Cost": "" if line.cost_usd is None else f"${line.cost_usd:.6f}",
        "Dropped fields": ", ".join(line.dropped),
        "Repairs": ", ".join(line.repaired),
        "Experiment": f"{line.experiment}: {line.variant}" if line.variant else "",
        "Route": line.route,
        "Key": line.key,
        "Surface": f"{line.surface} {line.task}".strip() + (", streamed" if line.stream else ""),
        "Status": str(line.status),
        "Request id": line.request_id,
    }
    pairs |= {_label(name): str(value) for name, value in (line.attributes or {}).items()}
    return Markup().join(_PAIR.format(name, value) for name, value in pairs.items() if value)


def _label(name: str) -> str:
    """Return the name of an attribute as a label."""
    return name.replace("_", " ").capitalize()
