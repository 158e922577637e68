"""Render vectors as `/api/embed` and the older `/api/embeddings` have them."""

import time

from msgspec import Struct

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.ollama.lines import (
    Clock,
    OllamaTimes,
    Stopwatch,
    with_fields,
)
from strowger_gateway.gateway.surfaces.openai.bodies import as_numbers
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.requests import EmbeddingsRequest


class EmbedAnswer(OllamaTimes, frozen=True, kw_only=True):
    """One vector per input, in order."""

    model: str
    embeddings: list[list[float]]


class EmbeddingAnswer(Struct, frozen=True, kw_only=True):
    embedding: list[float]


class EmbedRenderer:
    """Of `/api/embed`."""

    def __init__(
        self, request: EmbeddingsRequest, request_id: str, *, clock: Clock = time.time_ns
    ) -> None:
        self._model = request.model
        self._watch = Stopwatch(request_id, clock)

    def headers(self, backend: str) -> Headers:
        return []

    def embeddings(self, embeddings: Embeddings) -> bytes:
        """Raises UpstreamBroken if a backend's base64 is not float32 values."""
        # One by one, so that a large answer does not hold the interpreter.
        vectors = b",".join([encode(as_numbers(one)) for one in embeddings.vectors])
        head = b'{"model":%b,"embeddings":[%b]' % (encode(self._model), vectors)
        return with_fields(head, _of_prompt(self._watch.times(embeddings.usage)))


class EmbeddingRenderer:
    """Of `/api/embeddings`."""

    def headers(self, backend: str) -> Headers:
        return []

    def embeddings(self, embeddings: Embeddings) -> bytes:
        """Raises UpstreamBroken if a backend's base64 is not float32 values."""
        return encode(EmbeddingAnswer(embedding=as_numbers(embeddings.vectors[0])))


def _of_prompt(times: OllamaTimes) -> OllamaTimes:
    """Vectors have no answer to time."""
    return OllamaTimes(
        total_duration=times.total_duration,
        load_duration=times.load_duration,
        prompt_eval_count=times.prompt_eval_count,
    )
