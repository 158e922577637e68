"""Admit a request under the limits that apply to it, and show its client what remains."""

from time import monotonic_ns

from gateway.access.auth import Caller
from gateway.asgi.disconnect import DisconnectGuard
from gateway.asgi.exchange import HotExchange
from gateway.asgi.response import ResponseWriter
from gateway.limits.estimate import tokens_needed, tokens_used
from gateway.limits.headers import Headers, admitted_headers, refused_headers
from gateway.limits.ledger import Hold, LimitRefusal
from gateway.limits.limits import SECOND, RequestLimits
from gateway.routing.request_record import RequestRecord
from gateway.surfaces.hot_route import HotRoute
from schemas.errors import LimitExceeded
from schemas.requests import Request

NAMES = {"requests": "requests", "tokens": "tokens", "concurrent": "concurrent requests"}

CONCURRENT_RETRY_S = 1.0
"""When to retry if a request in flight has to end first, which nothing can predict."""


async def admit_limited(
    limits: RequestLimits,
    caller: Caller,
    record: RequestRecord,
    request: Request,
    response: ResponseWriter,
    at_route: HotRoute,
    exchange: HotExchange,
) -> Hold | None:
    """Reserve the request under every limit that applies; settle it when it has ended.

    `None` if no limit applies. record: has the name of its route. at_route: the path; one that
    only counts tokens reserves none.

    Raises LimitExceeded if a limit lacks room, and ClientGone if the client leaves while the
    request waits for room; then nothing is reserved.
    """
    accounts = limits.of(caller.name, record.route, request.model, caller.team, caller.user)
    if accounts is None:
        return None
    counted = accounts.tokens and not at_route.counts
    tokens = tokens_needed(request, accounts, record) if counted else 0
    at = monotonic_ns()
    anthropic = at_route.surface.name == "anthropic"
    queue = limits.queue
    contended = queue.waiting > 0 and queue.is_contended(accounts)
    hold = None if contended else accounts.reserve(tokens, at)
    if hold is None:
        with DisconnectGuard(exchange):
            found = await limits.find_room(accounts, tokens, caller.name, contended=contended)
        if isinstance(found, LimitRefusal):
            shown = refused_headers(accounts, monotonic_ns(), anthropic=anthropic)
            raise _refuse(limits, found, tokens, response, shown)
        hold = found
    admitted_headers(accounts, response.own_headers(), anthropic=anthropic)
    return hold


def _refuse(
    limits: RequestLimits,
    refusal: LimitRefusal,
    tokens: int,
    response: ResponseWriter,
    shown: Headers,
) -> LimitExceeded:
    """Count a refusal and show it. shown: the headers of the limits."""
    limits.count_refused(refusal.limit, refusal.quantity)
    if refusal.wait is None:
        shown.append((b"x-should-retry", b"false"))
    elif refusal.wait:
        shown.append((b"retry-after-ms", b"%d" % -(-refusal.wait // 1_000_000)))
    headers = response.own_headers()
    headers += shown
    return _exceeded(refusal, tokens)


def settle_limited(hold: Hold, record: RequestRecord) -> None:
    """The request has ended: replace what was reserved by what was used."""
    hold.settle(tokens_used(record), monotonic_ns())


def _exceeded(refusal: LimitRefusal, tokens: int) -> LimitExceeded:
    per = "" if refusal.quantity == "concurrent" else f" per {refusal.per}"
    allowed = f"{refusal.allowed} {NAMES[refusal.quantity]}{per}"
    what = f"the limit {refusal.limit!r} allows {allowed}"
    if refusal.wait is None:
        return LimitExceeded(
            f"{what}, and this request may use {tokens}; lower max_tokens or shorten the prompt"
        )
    if not refusal.wait:
        return LimitExceeded(what, retry_after=CONCURRENT_RETRY_S)
    wait_s = refusal.wait / SECOND
    return LimitExceeded(f"{what}; retry in {wait_s:.3g} s", retry_after=wait_s)
