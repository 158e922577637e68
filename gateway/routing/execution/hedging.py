"""A second try beside one that is late: the first of the two to show content is the answer."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct

from gateway.clock import now
from gateway.routing.execution.attempt import Attempt, events_of, vectors_of
from gateway.routing.execution.attempt_sequence import PrimaryAttempt
from gateway.routing.planning.route import Hedging
from schemas.answers import Embeddings
from schemas.errors import GatewayError, InvalidRequest
from schemas.events import CONTENT, Event

_Shown = TypeVar("_Shown")
_CONTENT = frozenset(CONTENT)
_Source = AsyncGenerator[list[Event], None]


class _Opening(Struct, frozen=True, kw_only=True, eq=False):
    """The beginning of an answer up to its first content, and where the rest comes from."""

    held: list[Event]
    rest: _Source


async def hedged_events(
    attempt: PrimaryAttempt, hedging: Hedging
) -> AsyncGenerator[list[Event], None]:
    """The winner's events; the first batch holds everything up to its first content.

    Raises what the last one left raised. Closing it early cancels whoever is still asked.
    """
    sources: list[_Source] = []

    async def opening(one: Attempt) -> _Opening:
        source = events_of(one)
        sources.append(source)
        held: list[Event] = []
        async for batch in source:
            held += batch
            if any(type(event) in _CONTENT for event in batch):
                break
        return _Opening(held=held, rest=source)

    try:
        won = await _first(attempt, hedging, opening)
        for source in sources:
            if source is not won.rest:
                await source.aclose()
        yield won.held
        async for batch in won.rest:
            yield batch
    finally:
        for source in sources:
            await source.aclose()


async def hedged_vectors(attempt: PrimaryAttempt, hedging: Hedging) -> Embeddings:
    """The winner's vectors."""
    return await _first(attempt, hedging, vectors_of)


async def _first(
    attempt: PrimaryAttempt,
    hedging: Hedging,
    ask: Callable[[Attempt], Coroutine[None, None, _Shown]],
) -> _Shown:
    """What the first of at most two shows; from then on the winner is the attempt's `current`."""
    first = asyncio.create_task(ask(attempt.current))
    try:
        await asyncio.wait({first}, timeout=hedging.after_s)
        hedge = None if first.done() else attempt.rest.hedge()
        if hedge is None:
            return await first
        second = asyncio.create_task(ask(hedge))
        try:
            return await _race(attempt, first, hedge, second)
        finally:
            await _stop(second)
            attempt.current.mark_as_server()
    finally:
        await _stop(first)


async def _race(
    attempt: PrimaryAttempt,
    first: asyncio.Task[_Shown],
    hedge: Attempt,
    second: asyncio.Task[_Shown],
) -> _Shown:
    """Who fails falls out, and the other goes on alone.

    But a failure of the first try that would not have moved on ends both, as it would have done
    without a hedge. When this returns or raises, all but the attempt's `current` is booked.
    """
    late = attempt.current
    try:
        await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError as gone:
        hedge.fail_hedge(gone, now())
        raise
    if first.done():
        error = first.exception()
        if not isinstance(error, GatewayError) or not attempt.rest.may_fail_over(error):
            hedge.lose_race()
            return first.result()
        late.fail_primary(error, now())
        attempt.replace_with(hedge)
        return await second
    error = second.exception()
    if error is None:
        late.lose_race()
        attempt.replace_with(hedge)
        return second.result()
    hedge.fail_hedge(error, now())
    if isinstance(error, InvalidRequest):
        attempt.rest.refund()
    return await first


async def _stop(task: asyncio.Task[_Shown]) -> None:
    """Cancel what still runs, and wait until its connection is closed.

    A task keeps what it was cancelled with until somebody asks, and that leads back to the task.
    """
    task.cancel()
    await asyncio.wait({task})
    with suppress(asyncio.CancelledError):
        task.exception()
