"""Hedging: a parallel attempt at another backend if the first is late; the faster one answers."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.gateway.routing.execution.attempt import (
    TIMER_S,
    Attempt,
    events_of,
)
from strowger_gateway.gateway.routing.execution.attempt_sequence import PrimaryAttempt
from strowger_gateway.gateway.routing.planning.route import Hedging
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import CONTENT, Event

QUEUE_POLL_S = 0.01
"""Seconds after which an attempt in a queue of the gateway's own is looked at again, at least."""

_Shown = TypeVar("_Shown")
_CONTENT = frozenset(CONTENT)
_Source = AsyncGenerator[list[Event], None]


class _Opening(Struct, frozen=True, kw_only=True, eq=False):
    """An answer up to its first content. held: the events so far; rest: yields the others."""

    held: list[Event]
    rest: _Source


async def hedged_events(
    attempt: PrimaryAttempt, hedging: Hedging
) -> AsyncGenerator[list[Event], None]:
    """The events of the faster attempt; the first batch holds all up to its first content.

    Raises the error of the last attempt that was running. Closing the generator early cancels all
    running attempts.
    """
    sources: list[_Source] = []

    async def opening(racer: Attempt) -> _Opening:
        source = events_of(racer)
        sources.append(source)
        held: list[Event] = []
        async for batch in source:
            held += batch
            if any(type(event) in _CONTENT for event in batch):
                break
        return _Opening(held=held, rest=source)

    try:
        won = await hedged_whole(attempt, hedging, opening)
        for source in sources:
            if source is not won.rest:
                await source.aclose()
        yield won.held
        async for batch in won.rest:
            yield batch
    finally:
        for source in sources:
            await source.aclose()


async def hedged_whole(
    attempt: PrimaryAttempt,
    hedging: Hedging,
    ask: Callable[[Attempt], Coroutine[None, None, _Shown]],
) -> _Shown:
    """The result of the faster of at most two attempts, which becomes the attempt's `current`."""
    await in_task()
    first = asyncio.create_task(ask(attempt.current))
    try:
        await _wait(first, attempt.current, hedging.after_s)
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


async def _wait(first: asyncio.Task[_Shown], attempt: Attempt, after_s: float) -> None:
    """Wait until the attempt has ended, or its backend has had `after_s`.

    The time in queues of the gateway's own is not the backend's, and no reason for another one.
    """
    entry, left = attempt.entry, after_s
    while True:
        await asyncio.wait({first}, timeout=left)
        if first.done():
            return
        if entry.waiting:
            left = max(after_s, QUEUE_POLL_S)
            continue
        left = after_s - (now() - attempt.started - entry.waited_s)
        if left <= TIMER_S:
            return


async def _race(
    attempt: PrimaryAttempt,
    first: asyncio.Task[_Shown],
    hedge: Attempt,
    second: asyncio.Task[_Shown],
) -> _Shown:
    """Wait for the faster of two attempts; if one fails, the other continues alone.

    If the first attempt fails in a way that does not fail over, both end, as without a hedge.
    On return or raise every attempt but the `current` one has ended.
    """
    late = attempt.current
    try:
        await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError as cancelled:
        hedge.fail_hedge(cancelled, now())
        raise
    if first.done():
        error = first.exception()
        if not isinstance(error, GatewayError) or not attempt.rest.may_fail_over(error):
            hedge.lose_race()
            return first.result()
        late.fail_primary(error, now())
        attempt.rest.refund(late.candidate, error)
        attempt.replace_with(hedge)
        return await second
    error = second.exception()
    if error is None:
        late.lose_race(now() - hedge.started - hedge.entry.waited_s)
        attempt.replace_with(hedge)
        return second.result()
    hedge.fail_hedge(error, now())
    if isinstance(error, GatewayError):
        attempt.rest.refund(hedge.candidate, error)
    return await first


async def _stop(task: asyncio.Task[_Shown]) -> None:
    """Cancel the task if it still runs, and wait until its connection is closed.

    Reading the exception releases it: it refers back to the task, a cycle that only the garbage
    collector would free.
    """
    task.cancel()
    await asyncio.wait({task})
    with suppress(asyncio.CancelledError):
        task.exception()
