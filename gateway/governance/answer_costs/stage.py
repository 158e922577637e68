"""Show the client what its answer cost: in a header before a whole answer, and in `usage`.

The cost is that of the answer, as in the access log: what failed attempts and hedges cost is the
operator's. An unknown cost is `unknown`, never 0. Variants that clients may not know of are not
given away by what they cost.
"""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Final, cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.gateway.governance.usage.report import usd
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.prices import cost_of
from strowger_gateway.gateway.routing.planning.vendor_counts import NANOS
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.stages.answer_filter import AnswerFilter, Collect
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.events import Event, EventSource, Usage
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.tasks.task import TaskAnswer
from strowger_gateway.schemas.usage import tier_in_usage

HEADER: Final = b"x-gateway-cost-usd"
UNKNOWN: Final = b"unknown"
MOST_BYTES: Final = 16_384
"""Of a vendor's `usage` that gets a cost; a larger one reaches no client anyway."""

_object: Final = msgspec.json.Decoder(dict[str, Raw])


class ShowCosts(BaseStage):
    """Adds the filter. header, usage: where the cost is shown."""

    place = Place.EXAMINE

    def __init__(self, *, header: bool, usage: bool) -> None:
        self._header, self._usage = header, usage

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage."""
        if self._header or self._usage:
            request.filters.append(CostShown(request, header=self._header, usage=self._usage))
        return None


class CostShown(AnswerFilter):
    """The filter next to the client."""

    __slots__ = ("_header", "_request", "_usage")

    def __init__(self, request: RequestContext, *, header: bool, usage: bool) -> None:
        self._request, self._header, self._usage = request, header, usage

    async def chat(
        self, plan: Plan, collect: Collect[Answer | PlainAnswer]
    ) -> Answer | PlainAnswer:
        answer = await collect()
        shown = self._shown(answer.usage)
        if shown is None:
            return answer
        if isinstance(answer, PlainAnswer):
            return replace(answer, usage=shown)
        answer.usage = shown
        return answer

    async def answer(self, plan: Plan, collect: Collect[Answer]) -> Answer:
        answer = await collect()
        shown = self._shown(answer.usage)
        if shown is not None:
            answer.usage = shown
        return answer

    async def vectors(self, plan: Plan, collect: Collect[Embeddings]) -> Embeddings:
        answer = await collect()
        shown = self._shown(answer.usage)
        return answer if shown is None else replace(answer, usage=shown)

    async def task(self, plan: Plan, collect: Collect[TaskAnswer]) -> TaskAnswer:
        answer = await collect()
        self._tell(self._cost(answer.usage))
        return answer

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        return cast("EventSource", self._priced(source)) if self._usage else source

    async def _priced(self, source: EventSource) -> AsyncGenerator[list[Event], None]:
        async with aclosing(source):
            async for batch in source:
                yield [self._with_cost(one) if type(one) is Usage else one for one in batch]

    def _with_cost(self, usage: Usage) -> Usage:
        cost = self._cost(usage)
        return usage if cost is None else costing(usage, cost)

    def _shown(self, usage: Usage | None) -> Usage | None:
        """Add the header; return the usage that the client gets, `None` to leave it."""
        cost = self._cost(usage)
        self._tell(cost)
        if usage is None or cost is None or not self._usage:
            return None
        return costing(usage, cost)

    def _cost(self, usage: Usage | None) -> float | None:
        record = self._request.record
        if usage is None or not record.participation.shown:
            return None
        if record.cache is not None and record.cache.outcome == "hit":
            return 0.0
        price = self._request.generation.prices.of(record.backend)
        if price is None:
            return None
        return cost_of(usage, price.of_answer(usage, _tier(record, usage)))

    def _tell(self, cost: float | None) -> None:
        if self._header and self._request.record.participation.shown:
            value = UNKNOWN if cost is None else usd(round(cost * NANOS)).encode()
            self._request.response.own_headers.append((HEADER, value))


def costing(usage: Usage, cost: float) -> Usage:
    """Return the usage with `cost`, US dollars, among the vendor's own members."""
    members: dict[str, Raw] = {}
    if usage.raw is not None and len(memoryview(usage.raw)) <= MOST_BYTES:
        try:
            members = _object.decode(usage.raw)
        except (msgspec.DecodeError, RecursionError):
            return usage
    members["cost"] = Raw(msgspec.json.encode(cost))
    return replace(usage, raw=Raw(msgspec.json.encode(members)))


def _tier(record: RequestRecord, usage: Usage) -> str:
    named = None if usage.raw is None else tier_in_usage(usage.raw)
    return record.service_tier if named is None else named
