"""Render answers of the OpenAI dialect in Databricks' style: its header, errors and usage.

The service puts usage on every chunk of a stream, even unrequested: the prompt's tokens from the
first chunk on, and null for the others until the chunk that ends a choice (recorded streams of the
service, tests/adapters/fixtures/databricks). Many backends count after that chunk, so it waits.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.base import EmbeddingsRenderer, Headers, Renderer
from strowger_gateway.gateway.surfaces.databricks.errors import error_frame
from strowger_gateway.gateway.surfaces.sse import frame
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event, Finished, Usage


class DatabricksRenderer:
    """Render with `inner`, whose chunks carry the counts so far.

    The finish events of a stream's choices are held back until the stream is over.
    """

    def __init__(self, inner: Renderer) -> None:
        self._inner = inner
        self._usage: Usage | None = None
        self._ends: list[Event] = []

    def answer(self, answer: Answer) -> bytes:
        return self._inner.answer(answer)

    def events(self, batch: Sequence[Event]) -> bytes:
        shown: list[Event] = []
        for event in batch:
            if isinstance(event, Finished):
                self._ends.append(event)
            elif isinstance(event, Usage):
                self._usage = event
                shown.append(_of_the_prompt(event))
            else:
                shown.append(event)
        return self._inner.events(shown)

    def finish(self) -> bytes:
        counts = [] if self._usage is None else [self._usage]
        return self._inner.events([*counts, *self._ends]) + self._inner.finish()

    def error(self, exc: GatewayError) -> bytes:
        return frame(error_frame(exc))

    def headers(self, backend: str) -> Headers:
        return served_by(backend)


class DatabricksEmbeddingsRenderer:
    """Render with `inner`, and add the header."""

    def __init__(self, inner: EmbeddingsRenderer) -> None:
        self._inner = inner

    def embeddings(self, embeddings: Embeddings) -> bytes:
        return self._inner.embeddings(embeddings)

    def headers(self, backend: str) -> Headers:
        return served_by(backend)


def _of_the_prompt(usage: Usage) -> Usage:
    return replace(
        usage, completion_tokens=None, total_tokens=None, reasoning_tokens=None, raw=None
    )


def served_by(backend: str) -> Headers:
    """Return the header that names the served entity, as GET /api/2.0/serving-endpoints does."""
    return [(b"served-model-name", backend.encode("latin-1", "replace"))]
