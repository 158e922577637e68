"""Hold a request, and its whole answer, to the guardrails that apply.

Only with guardrails is this imported, with all hooks. The stage examines the request before its
backends are ordered; the filter that it adds examines the answer, whole or as it streams.
"""

from collections.abc import Awaitable, Callable

from strowger_gateway.gateway.content.guardrails.findings.column import record_findings
from strowger_gateway.gateway.content.hooks.counts import GuardCounts
from strowger_gateway.gateway.content.hooks.guarded_request import GuardedRequest, Guards
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard
from strowger_gateway.gateway.stages.answer_filter import AnswerFilter, Collect
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import EventSource
from strowger_gateway.schemas.tasks.task import TaskAnswer


class GuardrailStage(BaseStage):
    """Of one route and generation."""

    place = Place.EXAMINE
    leaves = True

    def __init__(self, guards: Guards, counts: GuardCounts) -> None:
        self._guards = guards
        self._counts = counts

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """Replace the request by what backends may receive, and add the filter of its answer.

        What takes long happens in a thread, or is waited for while the client is there. Raises
        ContentBlocked, InvalidRequest, Throttled, Unavailable, ClientGone.
        """
        record, sent = request.record, request.request
        assert sent is not None
        if record.route in self._guards.exempt:
            if record.payload is not None:
                record.payload.withheld = True  # it may have what guardrails keep out of payloads
            return None
        guards = self._guards.of(
            self._counts, record.caller, record.team, record.user, record.route, sent.model
        )
        if guards is not None:
            return _examine(request, guards)
        if record.payload is not None:
            record.payload.withheld = False
        return None

    def leave(self, request: RequestContext) -> None:
        """Record what was found."""
        if request.record.findings:
            record_findings(request.record, request.record.findings)


class GuardedAnswer(AnswerFilter):
    """The answer of one request, held to its guardrails."""

    __slots__ = ("guards",)

    plainly = False
    examines = True

    def __init__(self, guards: GuardedRequest) -> None:
        self.guards = guards

    async def answer(self, plan: Plan, collect: Collect[Answer]) -> Answer:
        """See AnswerFilter. Raises ContentBlocked."""
        return await self.guards.answer(await collect())

    async def vectors(self, plan: Plan, collect: Collect[Embeddings]) -> Embeddings:
        """See AnswerFilter."""
        return self.guards.vectors(await collect())

    async def task(self, plan: Plan, collect: Collect[TaskAnswer]) -> TaskAnswer:
        """See AnswerFilter."""
        return self.guards.task(await collect())

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        """See AnswerFilter."""
        return self.guards.events(source)

    async def error(self, error: GatewayError) -> None:
        """Mask what an error quotes of its backend's answer."""
        await self.guards.error(error)


async def _examine(request: RequestContext, guards: GuardedRequest) -> None:
    record, sent, room = request.record, request.request, request.room
    assert sent is not None
    assert room is not None
    record.findings = guards.findings
    guards.belong_to(request.generation)
    guards.asked_by(record.holder, record.level)
    if record.payload is not None:
        record.payload.withheld = True  # a reload may have removed them while the body arrived

    async def offload(call: Callable[[], object], size: int) -> object:
        return await room.run(call, record.holder, size)

    guards.offload_with(offload, room.buffer)
    if record.large or guards.waits:
        with DisconnectGuard(request.exchange):
            sent = await guards.request(sent, room.size if record.large else 0)
    else:
        sent = await guards.request(sent, 0)
    request.request = request.response.request = sent
    if record.payload is not None:
        record.payload.withheld = guards.has_acted
    request.filters.append(GuardedAnswer(guards))
