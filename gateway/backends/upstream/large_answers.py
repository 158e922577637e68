"""Decode a large answer of a backend: measured first, in a thread, its memory claimed."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.transport import Reply
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.measured_json import ANSWER, EVENT, TooComplex, measure

T = TypeVar("T")

LARGE: Final = 64 * 1024
"""Maximum bytes of an answer that is decoded in the event loop without measuring, in 5 ms."""

VECTOR_BYTES: Final = 128 * 1024
"""Of an answer with vectors, for each input: 4,096 numbers with all their digits and a line end."""

_JSON_LENGTH: Final = "inference-header-content-length"
"""Triton's header: what follows the JSON is binary."""


class TooManyValues(UpstreamBroken):
    """A limit of ours: no evidence about the backend, and another attempt costs as much again."""

    kind = None
    counts = False


async def decoded_apart(
    decode: Callable[[], T], body: bytes, reply: Reply, call: Call, upstream: str
) -> T:
    """Return what `decode` makes of a large body.

    Raises TooManyValues for one with too many values, Throttled or Unavailable without memory for
    them, and what `decode` raises.
    """
    room, holder, size = call.room, call.holder, len(body)
    length = reply.headers.get(_JSON_LENGTH, "")
    end = min(int(length), size) if length.isascii() and length.isdigit() else size
    weigh = partial(measure, body, end, ANSWER)
    try:
        if room is None:
            await asyncio.to_thread(weigh)
            return await asyncio.to_thread(decode)
        weight = (await room.run(weigh, holder, size)).size
    except TooComplex as exc:
        problem = f"the answer is too complex: {exc.problem}"
        raise TooManyValues(problem, upstream=upstream) from None
    room.buffer(weight)
    return await room.run(decode, holder, size + weight)


def check_frame(data: bytes, upstream: str) -> None:
    """Measure a large event of a stream. Raises TooManyValues for one with too many values."""
    try:
        measure(data, len(data), EVENT)
    except TooComplex as exc:
        problem = f"an event of the answer is too complex: {exc.problem}"
        raise TooManyValues(problem, upstream=upstream) from None
