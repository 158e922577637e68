"""Split inputs into several requests, for backends that limit the inputs per request."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

from strowger_gateway.gateway.backends.upstream.sending import (
    PartSending,
    Sending,
    add_up,
    is_unread,
)
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.requests import EmbeddingsRequest, WholeRequest
from strowger_gateway.schemas.tasks.task import TaskRequest

_Part = TypeVar("_Part", bound=WholeRequest)
_Answer = TypeVar("_Answer")

AT_ONCE: Final = 4
"""Requests that are on their way at a time for one of a client's: more would let it use up the
vendor's limit for all others."""


def split_batches(request: EmbeddingsRequest, most: int) -> list[EmbeddingsRequest]:
    """Split into requests of at most `most` inputs, in order; [request] if one is enough."""
    inputs = request.inputs
    if len(inputs) <= most:
        return [request]
    return [
        msgspec.structs.replace(request, inputs=inputs[start : start + most])
        for start in range(0, len(inputs), most)
    ]


def task_parts(request: TaskRequest, most: int | None) -> list[tuple[int, TaskRequest]]:
    """Split into requests of at most `most` items, each with the place of its first item."""
    items = request.items
    if most is None or items <= most:
        return [(0, request)]
    return [(start, request.part(start, start + most)) for start in range(0, items, most)]


async def side_by_side(
    parts: Sequence[_Part],
    embed: Callable[[_Part, Sending], Awaitable[_Answer]],
    sending: Sending,
) -> list[_Answer]:
    """Return the answers in order, of at most `AT_ONCE` requests at a time.

    The first failure cancels all others, and is raised. sending: of all, set by what was sent.
    """
    answers: dict[int, _Answer] = {}
    sendings = [PartSending() for _ in parts]
    waiting = iter(enumerate(parts))

    async def send_some() -> None:
        for place, one in waiting:
            try:
                answers[place] = await embed(one, sendings[place])
            except GatewayError as exc:
                sendings[place].unread |= is_unread(exc)
                raise

    senders = [asyncio.create_task(send_some()) for _ in parts[:AT_ONCE]]
    failure: GatewayError | None = None
    try:
        await asyncio.gather(*senders)
    except GatewayError as exc:
        failure = exc
        raise
    finally:
        for one in senders:
            one.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        sizes = [_size(one) for one in parts]
        whole = max(1, sum(sizes))
        shares = [(one, size / whole) for one, size in zip(sendings, sizes, strict=True)]
        add_up(sending, shares, failure)
    return [answers[place] for place in range(len(parts))]


def join_answers(parts: Sequence[Embeddings]) -> Embeddings:
    """Join answers in order; a token count is known only if every part has it."""
    if len(parts) == 1:
        return parts[0]
    prompt = _sum([one.usage.prompt_tokens for one in parts])
    total = _sum([one.usage.total_tokens for one in parts])
    return Embeddings(
        vectors=tuple(vector for one in parts for vector in one.vectors),
        model=parts[0].model,
        id=parts[0].id,
        usage=Usage(prompt_tokens=prompt, total_tokens=total),
    )


def _size(request: WholeRequest) -> int:
    if isinstance(request, EmbeddingsRequest):
        return sum(map(len, request.inputs))
    return request.characters


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
