"""Give each answer with vectors its `usage`, which OpenAI's clients require, and write its body.

Some vendors count nothing (Gemini at AI Studio, a few servers). The number is then an estimate, and
a header says so.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.token_estimate.estimate import text_tokens
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.requests import EmbeddingsRequest, Prompt

DIRECT: Final = 8192
"""Numbers, or characters of base64, that are written in the event loop, in 1 ms."""

ESTIMATED: Final = (b"x-gateway-estimated", b"usage")


async def with_usage(
    answer: Embeddings, request: EmbeddingsRequest, headers: Headers, *, large: bool
) -> Embeddings:
    """Return the answer with counts; adds to `headers` if they are estimated.

    large: the request is, so that measuring it would delay others.
    """
    usage = answer.usage
    if usage.prompt_tokens is not None or usage.total_tokens is not None:
        return answer
    tokens = await asyncio.to_thread(_tokens, request) if large else _tokens(request)
    headers.append(ESTIMATED)
    counted = Usage(prompt_tokens=tokens, total_tokens=tokens, raw=usage.raw)
    return replace(answer, usage=counted)


async def rendered(
    render: Callable[[Embeddings], bytes], answer: Embeddings, record: RequestRecord
) -> bytes:
    """Return the body; from a thread, when it is the key's turn, if it is large."""
    vectors, room = answer.vectors, record.room
    size = len(vectors) * len(vectors[0]) if vectors else 0
    if size <= DIRECT or room is None:
        return render(answer)
    return await room.run(partial(render, answer), record.holder, 20 * size)


def _tokens(request: EmbeddingsRequest) -> int:
    return sum([_input(one) for one in request.inputs])


def _input(one: Prompt) -> int:
    """Return the number of ids, or at least one token for a text."""
    return len(one) if isinstance(one, tuple) else max(1, round(text_tokens(one)))
