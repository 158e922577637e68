"""An event as one line of the log."""

import logging

from strowger_gateway.gateway.routing.backend_events.event import BackendEvent, ListedEvent

WARNED = (
    "failing",
    "circuit_opened",
    "no_backend",
    "check_failed",
    "draining",
    "disabled",
    "over_budget",
)


def level_of(event: BackendEvent) -> int | None:
    """Return the level; `None` for a refusal, which the request's own process has logged."""
    if event.kind == "refused":
        return None
    return logging.WARNING if event.kind in WARNED else logging.INFO


def line_of(listed: ListedEvent) -> str:
    """Return the message, without the name that a client requested."""
    event = listed.event
    text = f"{event.model}: {_what(event)}" if event.model else _what(event)
    if listed.left_out:
        text += f" ({listed.left_out} more changes before it are not logged)"
    return text


def _what(event: BackendEvent) -> str:
    backend, cause = event.backend, _cause(event)
    lasted = "" if event.duration_s is None else f" after {_span(event.duration_s)}"
    match event.kind:
        case "failing":
            return f"{backend}: failing, no success in {event.failed_in_row} attempts{cause}"
        case "circuit_opened":
            several = f", seen by {event.seen_by} gateways" if event.seen_by > 1 else ""
            share = "" if event.failed_share is None else f", {100 * event.failed_share:.0f} % fail"
            return f"{backend}: circuit open{share}{several}{cause}"
        case "refused":
            return f"{backend}: its vendor refuses the account, key or model{cause}"
        case "circuit_closed":
            still = "" if event.phase == "up" else ", but nothing has succeeded yet"
            return f"{backend}: circuit closed{lasted}{still}"
        case "recovered":
            return f"{backend}: works again{lasted}"
        case "removed":
            return f"{backend}: removed or changed by a reload while it was down{lasted}"
        case "cooldown":
            seconds = 0.0 if event.for_s is None else event.for_s
            return f"{backend}: cooling down for {_span(seconds)}, as it asked{cause}"
        case "no_backend":
            others = f"; requests go to {', '.join(event.fallback)}" if event.fallback else ""
            return f"no backend works{others}"
        case "backend_again":
            return f"has a backend that works{lasted}"
        case "check_failed":
            return f"{backend}: its health check fails{cause}"
        case "check_passed":
            return f"{backend}: its health check passes again{lasted}"
        case "draining":
            return f"{backend}: draining, no new requests{_by(event)}"
        case "disabled":
            return f"{backend}: disabled, no requests and no health checks{_by(event)}"
        case "over_budget":
            return f"{backend}: over budget, other backends serve{_by(event)}"
        case "within_budget":
            return f"{backend}: within its spend caps again{lasted}"
        case "enabled":
            return f"{backend}: enabled again{lasted}{_by(event)}"


def _by(event: BackendEvent) -> str:
    who = f", by {event.by}" if event.by else ""
    why = f": {event.message}" if event.message else ""
    until = "" if event.for_s is None else f", for {_span(event.for_s)}"
    return f"{until}{who}{why}"


def _cause(event: BackendEvent) -> str:
    since = "" if event.message or not event.code else f": {event.code}"
    return f": {event.code}: {event.message}" if event.message else since


def _span(seconds: float) -> str:
    """Seconds up to two minutes, then minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
