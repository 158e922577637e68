"""Answers of the OpenAI dialect as Databricks gives them: with its header and its failures."""

from collections.abc import Sequence

from gateway.surfaces.base import Headers, Renderer, VectorRenderer
from gateway.surfaces.databricks_errors import error_frame
from gateway.surfaces.sse import frame
from schemas.answers import Answer, Embeddings
from schemas.errors import GatewayError
from schemas.events import Event


class DatabricksRenderer:
    """What `inner` writes."""

    def __init__(self, inner: Renderer) -> None:
        self._inner = inner

    def answer(self, answer: Answer) -> bytes:
        return self._inner.answer(answer)

    def events(self, batch: Sequence[Event]) -> bytes:
        return self._inner.events(batch)

    def finish(self) -> bytes:
        return self._inner.finish()

    def error(self, exc: GatewayError) -> bytes:
        return frame(error_frame(exc))

    def headers(self, backend: str) -> Headers:
        return served_by(backend)


class DatabricksVectors:
    """What `inner` writes."""

    def __init__(self, inner: VectorRenderer) -> None:
        self._inner = inner

    def embeddings(self, embeddings: Embeddings) -> bytes:
        return self._inner.embeddings(embeddings)

    def headers(self, backend: str) -> Headers:
        return served_by(backend)


def served_by(backend: str) -> Headers:
    """The served entity that answered, by the name that GET /api/2.0/serving-endpoints gives it."""
    return [(b"served-model-name", backend.encode("latin-1", "replace"))]
