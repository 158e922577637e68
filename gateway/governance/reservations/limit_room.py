"""Find room for a request that its limits lack room for, or refuse it."""

import random
from time import monotonic_ns

from msgspec.structs import replace

from strowger_gateway.gateway.governance.limits.headers import refused_headers
from strowger_gateway.gateway.governance.limits.ledger import Accounts, Headers, Hold, LimitRefusal
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.limits.refusals import exceeded
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard, ResponseWriter
from strowger_gateway.schemas.errors import LimitExceeded


async def find_room(
    limits: RequestLimits,
    accounts: Accounts,
    tokens: int,
    record: RequestRecord,
    response: ResponseWriter,
) -> Hold:
    """Reserve a request that lacks room here, or that others wait in front of.

    Raises LimitExceeded if a limit lacks room, and ClientGone if the client leaves while the
    request waits for room; then nothing is reserved.
    """
    queue = limits.queue
    contended = queue.waiting > 0 and queue.is_contended(accounts)
    hold = None if contended else accounts.reserve(tokens, monotonic_ns())
    if hold is not None:
        return hold
    with DisconnectGuard(response.exchange):
        found = await limits.find_room(accounts, tokens, record.caller, contended=contended)
    if isinstance(found, LimitRefusal):
        anthropic = record.surface == "anthropic"
        shown = refused_headers(accounts, monotonic_ns(), anthropic=anthropic)
        raise refused(limits, found, tokens, response.own_headers, shown)
    return found


def refused(
    limits: RequestLimits, refusal: LimitRefusal, tokens: int, headers: Headers, shown: Headers
) -> LimitExceeded:
    """Count a refusal and show it. headers: of the answer. shown: those of the limits.

    Clients that were refused together for what running requests have reserved get different
    times, so that they do not come back together.
    """
    limits.count_refused(refusal.limit, refusal.quantity)
    if refusal.reserved and refusal.wait:
        refusal = replace(refusal, wait=int(refusal.wait * random.uniform(0.5, 1.5)))
    if refusal.wait is None:
        shown.append((b"x-should-retry", b"false"))
    elif refusal.wait:
        shown.append((b"retry-after-ms", b"%d" % -(-refusal.wait // 1_000_000)))
    headers += shown
    return exceeded(refusal, tokens)
