"""One request's way through its plan: attempt, hold until content, move on, give up.

Three verbs, one rule. `stream` commits to a backend with its first content; `whole` and `embed`
only when the answer is complete, so any failure up to its end can still move on.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from gateway.clock import now
from gateway.routing import hedge
from gateway.routing.attempts import OneTry, first_of
from gateway.routing.intervals import Intervals
from gateway.routing.plan import Plan
from gateway.routing.tries import embedding, generation
from gateway.routing.trip import Trip
from schemas.answers import Answer, Embeddings, Fold
from schemas.events import CONTENT, Event, Tokens, Usage
from schemas.requests import TokenRequest

_CONTENT = frozenset(CONTENT)


def _events(attempt: OneTry) -> AsyncGenerator[list[Event], None]:
    hedging = attempt.plan.hedging
    if hedging is None:
        return generation(attempt.current)
    return hedge.generated(attempt, hedging)


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


async def stream(plan: Plan, trip: Trip, *, tenant: str = "") -> AsyncGenerator[list[Event], None]:
    """The answer in batches; the first holds everything up to the first content.

    Raises GatewayError before the first batch with nothing shown, or after it with the stream
    cut. Closing the generator early cancels the attempt.
    """
    attempt = first_of(plan, trip, tenant)
    while True:
        held: list[Event] = []
        tokens = isinstance(attempt.current.request, TokenRequest)
        intervals = Intervals(trip.started) if tokens else None
        with attempt:
            async with aclosing(_events(attempt)) as source:
                async for batch in source:
                    content = _note(trip, batch)
                    if intervals is not None:
                        batch = intervals.timed(batch, now())
                    if attempt.committed:
                        yield batch
                        continue
                    held.extend(batch)
                    if content:
                        attempt.commit()
                        yield held
            if not attempt.committed:
                yield held
            return
        attempt = await attempt.attempts.next(attempt)


async def whole(plan: Plan, trip: Trip, *, tenant: str = "") -> Answer:
    """The complete answer of the first backend that completes one."""
    attempt = first_of(plan, trip, tenant)
    while True:
        fold = Fold()
        with attempt:
            source = _events(attempt)
            try:
                async for batch in source:
                    _note(trip, batch)
                    fold.add(batch)
            except BaseException:
                await source.aclose()
                raise
            return fold.answer()
        attempt = await attempt.attempts.next(attempt)


async def embed(plan: Plan, trip: Trip, *, tenant: str = "") -> Embeddings:
    """The vectors of the first backend that returns them."""
    attempt = first_of(plan, trip, tenant)
    while True:
        with attempt:
            if plan.hedging is None:
                vectors = await embedding(attempt.current)
            else:
                vectors = await hedge.embedded(attempt, plan.hedging)
            trip.usage = vectors.usage
            return vectors
        attempt = await attempt.attempts.next(attempt)
