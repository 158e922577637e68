"""What chat and legacy answers of the OpenAI dialect share: the way of a stream, the envelope."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from msgspec import UNSET, Raw, Struct, UnsetType

from gateway.surfaces.base import Headers
from gateway.surfaces.openai_bodies import error_body
from gateway.surfaces.openai_chunks import Chunks, Identity, encode, with_members
from gateway.surfaces.openai_usage import usage_json
from gateway.surfaces.sse import frame
from schemas.answers import Answer, Choice
from schemas.errors import GatewayError
from schemas.events import Event, Finished, TextDelta, Usage
from schemas.requests import ChatRequest, CompletionRequest


class _Answer(Struct, frozen=True, kw_only=True):
    id: str
    object: str
    created: int
    model: str
    choices: Sequence[Struct | Raw]
    usage: Raw | UnsetType = UNSET


class Rendering(ABC):
    """Renders one answer. Mutable: usage, and what stands around a choice's plain text.

    A plain piece of text is by far the most frequent event, so its frame is three byte strings:
    `_before`, written when the choice began, the text, and `_after`.

    WHOLE, CHUNK: what the two kinds of objects are called. EMPTY: a chunk's choice without content.
    """

    WHOLE: ClassVar[str]
    CHUNK: ClassVar[str]
    EMPTY: ClassVar[bytes]

    def __init__(self, request: ChatRequest | CompletionRequest, *, id: str, created: int) -> None:
        self._id = id
        self._created = created
        self._model = request.model
        self._include_usage = request.include_usage
        self._usage: Usage | None = None
        self._before: dict[int, bytes] = {}
        self._after = b""

    @cached_property
    def _chunks(self) -> Chunks:
        """Made when the first chunk is due: an answer that is not streamed has none."""
        return Chunks(
            Identity(id=self._id, object=self.CHUNK, created=self._created, model=self._model),
            include_usage=self._include_usage,
        )

    def headers(self, backend: str) -> Headers:
        return []

    def events(self, batch: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        before, after = self._before, self._after
        for event in batch:
            if type(event) is TextDelta and event.index in before and not event.logprobs:
                if event.text:
                    out += (before[event.index], encode(event.text), after)
            else:
                self._event(event, out)
                before, after = self._before, self._after
        return b"".join(out)

    def finish(self) -> bytes:
        return self._chunks.finish(self._usage, self.EMPTY)

    def error(self, exc: GatewayError) -> bytes:
        return frame(error_body(exc))

    def answer(self, answer: Answer) -> bytes:
        usage = answer.usage
        body = _Answer(
            id=self._id,
            object=self.WHOLE,
            created=self._created,
            model=answer.started.model or self._model,
            choices=[self._choice(choice, _finish(choice)) for choice in answer.choices],
            usage=UNSET if usage is None else Raw(usage_json(usage)),
        )
        return with_members(encode(body), answer.started.extra)

    @abstractmethod
    def _event(self, event: Event, out: list[bytes]) -> None:
        """Appends the frames of what is not plain text of a choice that has begun."""

    @abstractmethod
    def _choice(self, choice: Choice, finish: Finished) -> Struct | Raw:
        """One choice of a whole answer, to be encoded."""

    def _put(self, choice: Struct, out: list[bytes]) -> None:
        out.append(self._chunks.chunk(encode(choice)))


def _finish(choice: Choice) -> Finished:
    if choice.finish is None:
        raise GatewayError(f"choice {choice.index} was rendered before it was finished")
    return choice.finish
