"""Compact one conversation: summaries of its pieces, and then its answer or the last summary.

The calls are attempts of the same request, so that its limits, budgets, prices, records and traces
have each of them. Guardrails examine each summary, as they have examined the conversation.
"""

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.gateway.content.compaction.summary_request import (
    FIELDS,
    TASK_TOKENS,
    instructions_within,
    summary_request,
)
from strowger_gateway.gateway.content.compaction.summary_text import (
    NOT_COMPACTED,
    is_cut,
    no_summary,
    summary_in,
)
from strowger_gateway.gateway.content.compaction.transcript import (
    CUT,
    fitting_transcript,
    halves,
    pieces_of,
)
from strowger_gateway.gateway.content.compaction.window import ConversationWindow, window_of
from strowger_gateway.gateway.content.stored_responses.seals import Seals
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses.compaction import (
    MANAGEMENT,
    PREFIX,
    PURPOSE,
    compaction_item,
)
from strowger_gateway.gateway.surfaces.stored_items import Compacted
from strowger_gateway.gateway.surfaces.token_estimate.estimate import estimated_input, text_tokens
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    UpstreamBroken,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.prompt_too_long import CONTEXT_LENGTH
from strowger_gateway.schemas.requests import ChatRequest, Compaction

MOST_CALLS: Final = 16
"""Summaries that one request asks for, those included that were too long for the model."""

UNKNOWN_CONTEXT: Final = 1_000_000
"""Tokens, of a model whose context is unknown: its refusal shows that a piece is too long."""

ANSWER_SHARE: Final = 0.2
"""Of a context, for a summary."""

INSTRUCTIONS_SHARE: Final = 0.1
"""Of a context, for the instructions of a conversation, which every later request has again."""

KEPT_SHARE: Final = 0.25
"""Of a threshold, for the user's earlier messages that stay as they are."""

LEAST_GAIN: Final = 0.1
"""Of a threshold, in what is replaced: for less, no request pays for another summary."""

MOST_ANSWER: Final = 8_192
"""Tokens of a summary, at most, that are kept free in a large context."""

ESTIMATED: Final = 0.8
"""Of the room in a context, because tokens of text are an estimate."""

SMALLEST: Final = 256
"""Tokens of a piece."""

DEFAULT_SHARE: Final = 0.8
"""Of a context, for a client that names no threshold."""

DEFAULT_THRESHOLD: Final = 200_000
"""Tokens, if the context is not known either."""


class Compacting:
    """One request. Mutable state: the pieces that have no summary yet, and that of all others.

    item: the compaction item of a conversation that was compacted before it is answered, as JSON;
    b"" if there is none, or not yet.
    """

    def __init__(self, request: RequestContext, wants: Compaction, seals: Seals) -> None:
        sent, plan = request.request, request.plan
        assert isinstance(sent, ChatRequest)
        assert plan is not None
        self.item = b""
        self.wants = wants
        self._request = request
        self._seals = seals
        self._sent = sent
        self._first = plan
        self._pieces: list[str] = []
        self._instructions = ""
        self._summary = ""
        self._calls = 0
        self._asks_makers = False
        self._passed_over: set[str] = set()

    async def prepare(self) -> tuple[Plan, ChatRequest]:
        """Return the request that comes last, with its plan: for the last summary, or the answer.

        Backends that compact themselves get the client's own request first. Raises what a backend's
        failure is, and InvalidRequest for a conversation that is too long.
        """
        if self._compacts_itself():
            self._asks_makers = True
            makers = [one for one in self._first.candidates if one.backend.supports.compacts]
            return _narrowed(self._first, makers), self._sent
        return await self._own()

    async def after(self, error: GatewayError) -> tuple[Plan, ChatRequest] | None:
        """Return the request to go on with after a failure; `None` if there is none.

        A server that makes summaries, but not of this conversation or with this model, gets a
        transcript as any other. Where it is away, the others get one. A model that could not read a
        piece gets half of it.
        """
        if self._asks_makers:
            self._asks_makers = False
            if self._refuses_to_compact(error) or self._goes_elsewhere(error):
                return await self._own()
            return None
        return await self.last_summary() if self.wants.now and self.cut_further(error) else None

    async def checked(self, answer: Answer) -> tuple[Plan, ChatRequest] | None:
        """Return the request that another backend gets, if the answer is not a summary.

        `None` for a summary. Raises UpstreamBroken if no other backend is left.
        """
        if summary_in(answer):
            self._name_cut(answer)
            record = self._request.record
            record.dropped += tuple([name for name in self._sent.extra if name not in FIELDS])
            return None
        self._pass_over()
        return await self.last_summary()

    async def last_summary(self) -> tuple[Plan, ChatRequest]:
        """Ask for all summaries but the last. Return that of the last piece."""
        while len(self._pieces) > 1:
            await self._summarise()
        self._count()
        asked = self._asked("".join(self._pieces), stream=self._sent.stream)  # one piece, or none
        return self._planned(asked), asked

    def cut_further(self, error: GatewayError) -> bool:
        """Cut the next piece in two if the model could not read it. Return whether it is cut."""
        if error.code != CONTEXT_LENGTH or not self._pieces:
            return False
        if len(self._pieces[0]) < 2 or text_tokens(self._pieces[0]) < SMALLEST:
            return False
        self._pieces[:1] = halves(self._pieces[0])
        return True

    async def sealed(self, compacted: Compacted) -> bytes:
        """Return the item that the client keeps, as JSON."""
        await self._seals.ready()
        record = self._request.record
        seal = self._seals.seal(record.caller, encode(compacted), PURPOSE)
        return compaction_item(record.request_id, PREFIX + seal)

    async def _own(self) -> tuple[Plan, ChatRequest]:
        if self.wants.now:
            await self._split(self._sent)
            return await self.last_summary()
        return await self._answerable()

    def _compacts_itself(self) -> bool:
        """Return whether the first backend does so for this request."""
        first = _first_of(self._first)
        if not first.backend.supports.compacts or not self._first.candidates:
            return False
        asked = first.request or self._sent
        return self.wants.now or (isinstance(asked, ChatRequest) and MANAGEMENT in asked.extra)

    def _refuses_to_compact(self, error: GatewayError) -> bool:
        if not self.wants.now:
            return error.code == CONTEXT_LENGTH or (error.param or "").startswith(MANAGEMENT)
        if isinstance(error, UpstreamRefused):
            return error.about != "account"
        return isinstance(error, InvalidRequest | UpstreamRejected)

    def _goes_elsewhere(self, error: GatewayError) -> bool:
        """Leave out the backends that compact themselves. Return whether others are asked."""
        first = self._first
        others = [one for one in first.candidates if not one.backend.supports.compacts]
        rest = [one for one in first.unavailable if not one.backend.supports.compacts]
        if isinstance(error, DeadlineExceeded) or not (others or rest):
            return False
        self._passed_over |= {one.name for one in first.candidates} - {one.name for one in others}
        self._first = replace(first, candidates=tuple(others), unavailable=tuple(rest))
        return True

    async def _answerable(self) -> tuple[Plan, ChatRequest]:
        """Compact a conversation that exceeds its threshold. Return what is to be answered."""
        sent = self._sent
        extra = {name: raw for name, raw in sent.extra.items() if name != MANAGEMENT}
        original = sent.original
        assert original is not None
        bare = replace(sent, extra=extra, original=replace(original, compaction=None))
        model = _first_of(self._first).model
        room = self._request.room
        assert room is not None
        holder = self._request.record.holder
        threshold = self._threshold()

        def too_long() -> ConversationWindow | None:
            if estimated_input(bare, model) <= threshold:
                return None
            return window_of(bare.messages, threshold * KEPT_SHARE, model)

        window = await room.run(too_long, holder, room.size)
        if window is not None and window.gain <= threshold * LEAST_GAIN:
            # Instructions or a summary exceed it alone: compacting again would not help.
            self._request.record.repaired_body += (f"input[]:{NOT_COMPACTED}",)
        elif window is not None:
            try:
                bare = await self._compacted(bare, window)
            except UpstreamBroken:  # the conversation may still fit, and else has its own error
                self._passed_over.clear()
                self._request.record.repaired_body += (f"input[]:{NOT_COMPACTED}",)
        self._request.use(bare)
        plan = self._request.plan = self._planned(bare)
        return plan, bare

    async def _compacted(self, bare: ChatRequest, window: ConversationWindow) -> ChatRequest:
        await self._split(replace(bare, messages=window.replaced))
        while self._pieces:
            await self._summarise()
        self.item = await self.sealed(window.sealed(self._summary))
        return replace(bare, messages=window.with_summary(self._summary))

    async def _split(self, sent: ChatRequest) -> None:
        """Cut the conversation into pieces that the first backend's model can read."""
        context = _context_of(self._first)
        answer = min(context * ANSWER_SHARE, MOST_ANSWER)
        instructions = context * INSTRUCTIONS_SHARE
        room = self._request.room
        assert room is not None
        holder, size = self._request.record.holder, room.size

        def split() -> tuple[str, Sequence[str], Sequence[str]]:
            said = fitting_transcript(sent.messages, context * MOST_CALLS / 2)
            told = instructions_within(said.instructions, instructions)
            left = context - answer - text_tokens(told) - TASK_TOKENS
            if said.tokens > left * ESTIMATED:  # then each piece comes with a summary
                left -= answer
            return told, pieces_of(said.turns, max(SMALLEST, left * ESTIMATED)), said.lacks

        self._instructions, pieces, lacks = await room.run(split, holder, size)
        self._pieces = [*pieces]
        self._request.record.repaired_body += tuple([f"input[]:{one}" for one in lacks])

    async def _summarise(self) -> None:
        """Ask for the summary of the next piece and of those before it."""
        request, record = self._request, self._request.record
        self._count()
        asked = self._asked(self._pieces[0], stream=False)
        plan = self._planned(asked)
        collect = partial(pipeline.collect, plan, asked, record, tenant=record.caller)
        for one in request.filters:
            if one.examines:
                collect = partial(one.answer, plan, collect)
        try:
            answer = await collect()
        except GatewayError as exc:
            if self.cut_further(exc):
                return
            raise
        summary = summary_in(answer)
        if not summary:
            self._pass_over()
            return
        self._name_cut(answer)
        self._summary = summary
        del self._pieces[0]

    def _pass_over(self) -> None:
        """Ask the backend that has answered no more. Raises UpstreamBroken if no other is left."""
        backend = self._request.record.backend
        self._passed_over.add(backend)
        first = self._first
        if all(one.name in self._passed_over for one in (*first.candidates, *first.unavailable)):
            raise no_summary(backend)

    def _name_cut(self, answer: Answer) -> None:
        record, name = self._request.record, f"input[]:{CUT}"
        if is_cut(answer) and name not in record.repaired_body:
            record.repaired_body += (name,)

    def _count(self) -> None:
        self._calls += 1
        if self._calls > MOST_CALLS or len(self._pieces) > MOST_CALLS:
            raise InvalidRequest(
                f"input: the conversation is too long to be compacted with this model in "
                f"{MOST_CALLS} calls; compact it earlier, or with a model of a larger context",
                param="input",
                code=CONTEXT_LENGTH,
            )

    def _asked(self, piece: str, *, stream: bool) -> ChatRequest:
        return summary_request(self._sent, self._instructions, piece, self._summary, stream=stream)

    def _threshold(self) -> float:
        if self.wants.threshold:
            return self.wants.threshold
        context = _context_of(self._first)
        return DEFAULT_THRESHOLD if context == UNKNOWN_CONTEXT else context * DEFAULT_SHARE

    def _planned(self, asked: ChatRequest) -> Plan:
        """Plan a request of the gateway's own, with the backends in the order of the client's."""
        request, record = self._request, self._request.record
        planner, route = request.generation.planner, request.route
        assert route is not None
        facts = RequestFacts(
            uniform_draw=random.random(),
            now=record.started,
            caller=record.caller,
            headers=request.exchange.scope["headers"],
            request_id=record.request_id,
        )
        enrolment = request.enrolment or planner.enrol(route, asked, facts)
        plan = planner.plan(route, asked, facts, enrolment)
        places = {_key(one): place for place, one in enumerate(self._first.candidates)}
        found = sorted(plan.candidates, key=lambda one: places.get(_key(one), len(places)))
        rest = self._asked_still(plan.unavailable)
        plan = replace(plan, unavailable=tuple(rest), mirror=None, hedging=None)
        return _narrowed(plan, self._asked_still(found))

    def _asked_still(self, found: Sequence[Candidate]) -> list[Candidate]:
        return [one for one in found if one.name not in self._passed_over]


def leading_item(item: bytes) -> Raw:
    """Return the value of LEADING for one item."""
    return Raw(b"[%b]" % item)


def _first_of(plan: Plan) -> Candidate:
    return (plan.candidates or plan.unavailable)[0]


def _narrowed(plan: Plan, candidates: Sequence[Candidate]) -> Plan:
    names = tuple(dict.fromkeys([one.name for one in candidates])) or plan.names
    return replace(plan, candidates=tuple(candidates), names=names)


def _context_of(plan: Plan) -> int:
    first = _first_of(plan)
    return first.backend.models.of(first.name).context or UNKNOWN_CONTEXT


def _key(one: Candidate) -> tuple[int, str]:
    return id(one.backend), one.name
