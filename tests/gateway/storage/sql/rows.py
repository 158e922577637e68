"""Recorded rows, with defaults for the fields that a test does not care about."""

from strowger_gateway.gateway.storage.sql.rows import AttemptRow, FeedbackRow, RequestRow, Role

NOON = 4_000_000_000.0
"""A time in Unix seconds, far from any retention."""


def request_row(
    request_id: str,
    *,
    variant: str = "a",
    unit: str = "u",
    epoch: int = 1,
    experiment: str = "e",
    status: int = 200,
    error: str = "",
    key: str = "key",
    time: float = NOON,
    fallback: bool = False,
    tokens: int | None = None,
    cost: float | None = None,
) -> RequestRow:
    return RequestRow(
        surface="openai",
        request_id=request_id,
        time=time,
        status=status,
        ms=20.0,
        key=key,
        model="chat",
        route="chat",
        backend="remote/m",
        error=error,
        completion_tokens=tokens,
        cost_usd=cost,
        experiment=experiment,
        epoch=epoch,
        variant=variant,
        unit=unit,
        fallback=fallback,
    )


def attempt_row(
    request_id: str,
    number: int = 1,
    *,
    time: float = NOON,
    role: Role = "served",
    cost: float | None = 0.5,
) -> AttemptRow:
    return AttemptRow(
        request_id=request_id,
        number=number,
        time=time,
        backend="remote/m",
        role=role,
        outcome="ok",
        ms=10.0,
        usage_source="reported",
        prompt_tokens=7,
        completion_tokens=3,
        cost_usd=cost,
    )


def vote(
    request_id: str,
    value: float | None,
    *,
    metric: str = "stars",
    key: str = "key",
    time: float = NOON,
    boolean: bool = False,
    comment: str = "",
) -> FeedbackRow:
    return FeedbackRow(
        request_id=request_id,
        time=time,
        key=key,
        metric=metric,
        value=value,
        boolean=boolean,
        comment=comment,
    )
