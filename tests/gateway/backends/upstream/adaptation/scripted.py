"""A backend with scripted answers that records its requests."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.schemas.answers import Answer, Embeddings, Fold
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta, Tokens, Usage
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest, GenerateRequest

CALL = Call(model="m", deadline=1e12, request_id="r")
"""A call whose time is never over."""

Step = list[Event] | GatewayError | float
"""A batch, a failure, or seconds to wait."""


class Scripted:
    """An Upstream. asked: what came in; closed: answers that were left before their end."""

    def __init__(
        self, supports: Supports, script: Callable[[GenerateRequest], Sequence[Step]]
    ) -> None:
        self.name = "far"
        self.supports = supports
        self.asked: list[GenerateRequest] = []
        self.embedded: list[EmbeddingsRequest] = []
        self.running = self.most = self.closed = 0
        self._script = script

    async def generate(
        self, request: GenerateRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        self.asked.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        over = False
        try:
            for step in self._script(request):
                if isinstance(step, float | int):
                    await asyncio.sleep(step)
                elif isinstance(step, GatewayError):
                    over = True
                    raise step
                else:
                    yield step
            over = True
        finally:
            self.running -= 1
            self.closed += not over

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        self.embedded.append(request)
        return Embeddings(vectors=tuple([0.0] for _ in request.inputs))

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        return 0

    async def aclose(self) -> None:
        pass


def text_answer(*deltas: str, finish: Finished | None = None) -> list[list[Event]]:
    """A text, streamed as it stands here."""
    return [
        [Started(id="a")],
        *([TextDelta(text=delta)] for delta in deltas),
        [finish or Finished(reason="stop"), Usage(prompt_tokens=3, completion_tokens=5)],
    ]


def token_answer(*tokens: tuple[int, str]) -> list[list[Event]]:
    """Tokens with their text, one a batch."""
    return [
        [Started(id="a")],
        *([Tokens(ids=(id,), text=text, elapsed_ms=1.0)] for id, text in tokens),
        [Finished(reason="stop"), Usage(prompt_tokens=3, completion_tokens=len(tokens))],
    ]


async def batches_of(source: AsyncGenerator[list[Event], None]) -> list[list[Event]]:
    return [batch async for batch in source]


async def answer_of(source: AsyncGenerator[list[Event], None]) -> Answer:
    """Everything that was said, folded."""
    fold = Fold()
    async for batch in source:
        fold.add(batch)
    return fold.answer()
