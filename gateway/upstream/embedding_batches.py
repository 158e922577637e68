"""Split embedding inputs into several requests, for backends that limit the inputs per request."""

from collections.abc import Sequence

import msgspec

from schemas.answers import Embeddings
from schemas.events import Usage
from schemas.requests import EmbeddingsRequest


def split_batches(request: EmbeddingsRequest, most: int) -> list[EmbeddingsRequest]:
    """Split into requests of at most `most` inputs, in order; [request] if one is enough."""
    inputs = request.inputs
    if len(inputs) <= most:
        return [request]
    return [
        msgspec.structs.replace(request, inputs=inputs[start : start + most])
        for start in range(0, len(inputs), most)
    ]


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


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
