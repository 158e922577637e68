"""One request's way through its plan: attempt, hold until content, move on, give up.

Three verbs, one rule. `stream` commits to a backend with its first content; `whole` and `embed`
only when the answer is complete, so any failure up to its end can still move on.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from gateway.clock import now
from gateway.routing.execution import hedging as hedge
from gateway.routing.execution.attempt import embedding
from gateway.routing.execution.attempt_sequence import Attempts, Turn, first_of
from gateway.routing.execution.token_timing import Intervals
from gateway.routing.planning.plan import Plan
from gateway.routing.request_record import Trip
from schemas.answers import Answer, Embeddings, Fold
from schemas.events import CONTENT, Event, Tokens, Usage
from schemas.requests import EmbeddingsRequest, GenerateRequest, TokenRequest

_CONTENT = frozenset(CONTENT)


def _note(trip: Trip, batch: list[Event]) -> bool:
    """Book what a batch tells about the request; true if it shows the client something."""
    content = False
    for event in batch:
        kind = type(event)
        if kind in _CONTENT:
            content = True
            trip.deltas += len(cast(Tokens, event).ids) if kind is Tokens else 1
        elif kind is Usage:
            trip.usage = cast(Usage, event)
    if content and trip.first_content is None:
        trip.first_content = now()
    return content


async def stream(
    plan: Plan, request: GenerateRequest, trip: Trip, *, tenant: str = ""
) -> AsyncGenerator[list[Event], None]:
    """The answer in batches; the first holds everything up to the first content.

    Raises GatewayError before the first batch with nothing shown, or after it with the stream
    cut. Closing the generator early cancels the attempt.
    """
    turn = first_of(plan, request, trip, tenant)
    if turn is None:
        turn = await Attempts(plan, request, trip, tenant).first()
    while True:
        held: list[Event] = []
        tokens = isinstance(turn.request, TokenRequest)
        intervals = Intervals(trip.started) if tokens else None
        try:
            async with aclosing(_events(turn)) as source:
                async for batch in source:
                    content = _note(trip, batch)
                    if intervals is not None:
                        batch = intervals.timed(batch, now())
                    if turn.committed:
                        yield batch
                        continue
                    held.extend(batch)
                    if content:
                        turn.commit()
                        yield held
            if not turn.committed:
                yield held
        except BaseException as error:
            if not turn.moves_on(error):
                raise
        else:
            (turn.instead or turn).succeed(now())
            return
        turn = await turn.attempts.next(turn)


async def whole(plan: Plan, request: GenerateRequest, trip: Trip, *, tenant: str = "") -> Answer:
    """The complete answer of the first backend that completes one."""
    turn = first_of(plan, request, trip, tenant)
    if turn is None:
        turn = await Attempts(plan, request, trip, tenant).first()
    while True:
        fold = Fold()
        source = _events(turn)
        try:
            try:
                async for batch in source:
                    fold.add(batch)
                    if fold.deltas and trip.first_content is None:
                        trip.first_content = now()
            except BaseException:
                await source.aclose()
                raise
            finally:
                trip.deltas, trip.usage = fold.deltas, fold.usage
            answer = fold.answer()
        except BaseException as error:
            if not turn.moves_on(error):
                raise
        else:
            (turn.instead or turn).succeed(now())
            return answer
        turn = await turn.attempts.next(turn)


async def embed(
    plan: Plan, request: EmbeddingsRequest, trip: Trip, *, tenant: str = ""
) -> Embeddings:
    """The vectors of the first backend that returns them."""
    turn = first_of(plan, request, trip, tenant)
    if turn is None:
        turn = await Attempts(plan, request, trip, tenant).first()
    while True:
        try:
            if plan.hedging is None:
                vectors = await embedding(turn)
            else:
                vectors = await hedge.embedded(turn, plan.hedging)
        except BaseException as error:
            if not turn.moves_on(error):
                raise
        else:
            (turn.instead or turn).succeed(now())
            trip.usage = vectors.usage
            return vectors
        turn = await turn.attempts.next(turn)


def _events(turn: Turn) -> AsyncGenerator[list[Event], None]:
    hedging, candidate = turn.plan.hedging, turn.candidate
    if hedging is not None:
        return hedge.generated(turn, hedging)
    request = candidate.request or turn.asked
    return candidate.backend.upstream.generate(
        request,  # pyright: ignore[reportArgumentType]  embeddings have a verb of their own
        turn.call,
    )
