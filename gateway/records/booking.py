"""From what happened to a request to its rows: one of its own, and one for each attempt."""

from collections.abc import Sequence

import msgspec

from gateway.records.rows import AttemptRow, RequestRow, Role, Row, Source
from gateway.routing.prices import Prices, cost_of
from gateway.routing.trip import Attempt, Trip
from gateway.telemetry.access_log import AccessLine
from schemas.events import Usage


def rows_of(trip: Trip, line: AccessLine, prices: Prices) -> list[Row]:
    """The request, and every attempt for which something was sent."""
    request = RequestRow(
        request_id=line.request_id,
        time=line.time,
        status=line.status,
        ms=line.ms,
        key=line.key,
        surface=line.surface,
        task=line.task,
        model=line.model,
        route=line.route,
        backend=line.backend,
        stream=line.stream,
        error=line.error,
        ttft_ms=line.ttft_ms,
        prompt_tokens=line.prompt_tokens,
        completion_tokens=line.completion_tokens,
        cost_usd=line.cost_usd,
        experiment=trip.experiment,
        epoch=trip.epoch,
        variant=trip.variant,
        unit=trip.unit,
        fallback=trip.fallback,
    )
    rows: list[Row] = [request]
    own = _own(trip.attempts)
    for place, attempt in enumerate(trip.attempts):
        if attempt.refused:
            continue
        shown = place == own
        usage, source = counted(
            trip.usage if shown else attempt.usage,
            trip.deltas if shown else attempt.deltas,
            trip.task,
            trip.prompt,
        )
        if not shown and trip.usage is not None:
            usage, source = _supposed(attempt, usage, source, trip.usage.prompt_tokens)
        rows.append(
            attempt_row(trip.request_id, place + 1, line.time, attempt, usage, source, prices)
        )
    return rows


def attempt_row(
    request_id: str,
    number: int,
    time: float,
    attempt: Attempt,
    usage: Usage,
    source: Source,
    prices: Prices,
) -> AttemptRow:
    """number: within the request, from 1. time: Unix seconds. usage, source: as `counted` says."""
    price = prices.of(attempt.backend) if prices.any and source else None
    return AttemptRow(
        request_id=request_id,
        number=number,
        time=time,
        backend=attempt.backend,
        role=_role(attempt),
        outcome=attempt.outcome,
        ms=attempt.ms,
        source=source,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost_usd=None if price is None else cost_of(usage, price),
    )


def counted(
    usage: Usage | None, deltas: int, task: str, prompt: int | None = None
) -> tuple[Usage, Source]:
    """What was used, and who says so: the backend, or an estimate of a delta a token.

    prompt: the estimate of its tokens, for where the backend has told none.
    """
    if usage is not None and usage.completion_tokens is not None:
        return usage, "reported"
    if usage is not None and task == "embeddings":
        return usage, "reported" if usage.prompt_tokens is not None else ""
    if deltas:
        if usage is not None and usage.prompt_tokens is not None:
            prompt = usage.prompt_tokens
        return Usage(prompt_tokens=prompt, completion_tokens=deltas), "estimated"
    return Usage(), ""


def _supposed(
    attempt: Attempt, usage: Usage, source: Source, prompt_tokens: int | None
) -> tuple[Usage, Source]:
    """With the prompt as another backend of the same request has counted it.

    For one that broke off before it told, and one that lost against a hedge: it had the prompt.
    """
    if prompt_tokens is None or usage.prompt_tokens is not None:
        return usage, source
    if source != "estimated" and attempt.outcome != "lost":
        return usage, source
    return msgspec.structs.replace(usage, prompt_tokens=prompt_tokens), "estimated"


def _own(attempts: Sequence[Attempt]) -> int:
    """The place of the attempt that the trip's own numbers are about; −1 where there is none."""
    for place in range(len(attempts) - 1, -1, -1):
        if not attempts[place].role and not attempts[place].refused:
            return place
    return -1


def _role(attempt: Attempt) -> Role:
    """A client that left was being served."""
    if attempt.role:
        return attempt.role
    return "served" if attempt.outcome in ("ok", "cancelled") else "failed"
