"""Execute the plan of a chat that is not streamed, without events if its answer is plain."""

from collections.abc import Sequence
from typing import cast

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution.attempt_sequence import first_attempt
from strowger_gateway.gateway.routing.execution.empty_answer import check_answer
from strowger_gateway.gateway.routing.execution.pipeline import collect
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.usage import tier_in, tier_named


async def collect_plain(
    plan: Plan, request: ChatRequest, record: RequestRecord, *, tenant: str = ""
) -> Answer | PlainAnswer:
    """As `pipeline.collect`, whose records it leaves; plain if the first attempt's answer is.

    `collect` does the rest: hedged attempts, attempts that have to wait, all after the first.
    """
    attempt = first_attempt(plan, request, record, tenant)
    if attempt is None:
        return await collect(plan, request, record, tenant=tenant)
    whole_chat = attempt.candidate.backend.whole_chat
    if whole_chat is None or attempt.candidate.undo is not None:
        return await collect(plan, request, record, tenant=tenant, begun=attempt)
    try:
        sent = cast("ChatRequest", attempt.candidate.request or request)
        answer = await whole_chat(sent, attempt.call)
        if type(answer) is PlainAnswer:
            record.deltas, record.usage = answer.deltas, answer.usage
            record.first_content_at = now()
            tier = answer.service_tier
            if tier is not None and (tier != "default" or record.service_tier):
                record.service_tier = tier_named(tier)
        else:
            answer = _folded(answer, record)
            if not (answer.choices and answer.choices[0].text):
                check_answer(attempt, answer)
    except BaseException as error:
        if not attempt.should_fail_over(error):
            raise
    else:
        attempt.succeed(now())
        return answer
    following = await attempt.rest.next(attempt)
    return await collect(plan, request, record, tenant=tenant, begun=following)


def _folded(events: Sequence[Event], record: RequestRecord) -> Answer:
    fold = Fold()
    fold.add(events)
    record.usage = fold.usage
    record.deltas = fold.deltas if fold.usage is not None else fold.tokens
    if fold.deltas:
        record.first_content_at = now()
    answer = fold.answer()
    tier = tier_in(answer.started.extra)
    if tier is not None:
        record.service_tier = tier
    return answer
