"""Answer with the number of tokens of a conversation, as the backend that would answer counts.

Where neither its vendor nor a tokenizer counts, or the counter fails, the number is an estimate,
and a header says so: a client that shows or compacts its context needs a number more than an exact
one.
"""

import asyncio
from typing import Final

from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.sending import PartSending
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution.attempt import Attempt, refuses_all, start_attempt
from strowger_gateway.gateway.routing.participation import NO_PARTICIPATION
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.surfaces.base import Surface
from strowger_gateway.gateway.surfaces.token_estimate.estimate import estimated_input
from strowger_gateway.schemas.errors import (
    GatewayError,
    Uncountable,
    UpstreamError,
    UpstreamRefused,
)
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.requests import ChatRequest

ESTIMATED: Final = (b"x-gateway-estimated", b"input_tokens")
"""The header of an answer whose number is an estimate."""

NOTHING = Usage(prompt_tokens=0, completion_tokens=0)
"""Counting generates nothing, so it costs nothing."""


async def count_tokens(request: RequestContext, surface: Surface) -> None:
    """Ask the first backend of the plan that does not refuse the operator's account or model.

    Another one would count otherwise, but it would also be the one that answers the conversation.
    If all refuse, the first one's tokens are estimated: a key may be allowed to answer and not to
    count. Raises what the vendor finds wrong with the conversation.
    """
    sent, plan, record, response = (
        request.request,
        request.plan,
        request.record,
        request.response,
    )
    if not isinstance(sent, ChatRequest):
        raise GatewayError("only conversations are counted")
    assert plan is not None
    record.task, record.usage, record.participation = "count_tokens", NOTHING, NO_PARTICIPATION
    found: int | None = None
    candidates = (*plan.candidates, *plan.unavailable)
    for candidate in candidates:
        try:
            found = await _count(candidate, plan, sent, request)
        except UpstreamRefused as exc:
            if refuses_all(candidate, exc) and now() < record.started + plan.deadline_s:
                continue
            found = await _estimate(candidate, sent, request)
        except Uncountable as exc:
            found = exc.about
            if found is None:
                found = await _estimate(candidate, sent, request)
            else:
                response.own_headers.append(ESTIMATED)
        except UpstreamError:
            found = await _estimate(candidate, sent, request)
        break
    if found is None:
        found = await _estimate(candidates[0], sent, request)
    record.usage = NOTHING
    await response.whole(200, surface.counted(found))


async def _estimate(candidate: Candidate, sent: ChatRequest, request: RequestContext) -> int:
    """Return an estimate, and say in the answer that it is one."""
    asked = candidate.request or sent
    assert isinstance(asked, ChatRequest)
    request.response.own_headers.append(ESTIMATED)
    return await asyncio.to_thread(estimated_input, asked, candidate.model)


async def _count(
    candidate: Candidate, plan: Plan, sent: ChatRequest, request: RequestContext
) -> int:
    """The number of tokens, as one backend counts them."""
    record = request.record
    pool, at = candidate.backend.pool, now()
    sending = PartSending()  # of its own: a count costs nothing
    call = Call(
        model=candidate.model,
        deadline=record.started + plan.deadline_s,
        request_id=record.request_id,
        tenant=record.caller,
        holder=record.holder,
        level=record.level,
        large=record.large,
        trace=None if record.trace is None else record.trace.start_attempt(at),
        pool=b"" if pool is None else pool.lines(sent, candidate.request, record),
        sending=sending,
    )
    probe = candidate.breaker.begin(at)
    entry = start_attempt(candidate, record, at)
    # Committed: a count says nothing about how long an answer takes.
    attempt = Attempt(candidate, sent, call, record, entry, at, plan, probe=probe, committed=True)
    asked = candidate.request or sent
    assert isinstance(asked, ChatRequest)
    try:
        with DisconnectGuard(request.exchange):
            found = await candidate.backend.upstream.count_tokens(asked, call)
    except BaseException as exc:
        if isinstance(exc, UpstreamError):
            exc.counts = False  # it answers conversations whether or not it counts them
        entry.waited_s = sending.waited_s
        attempt.fail(exc, now())
        raise
    attempt.succeed(now())
    return found
