"""The common base of chat and legacy completion renderers: streaming and the envelope."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.openai.bodies import error_body
from strowger_gateway.gateway.surfaces.openai.stream_chunks import (
    ChunkIdentity,
    ChunkWriter,
    encode,
    with_members,
)
from strowger_gateway.gateway.surfaces.openai.usage import usage_json
from strowger_gateway.gateway.surfaces.sse import frame
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event, Finished, TextDelta, Usage
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest


class _Answer(Struct, frozen=True, kw_only=True):
    id: str
    object: str
    created: int
    model: str
    choices: Sequence[Struct | Raw]
    usage: Raw | UnsetType = UNSET


class OpenAIRenderer(ABC):
    """Render one answer. Mutable state: usage, and the bytes around a choice's plain text.

    A plain piece of text is by far the most frequent event, so its frame is three byte strings:
    `_before`, built when the choice begins, the text, and `_after`.

    WHOLE, CHUNK: the two object names. EMPTY: a chunk's choice without content.
    """

    WHOLE: ClassVar[str]
    CHUNK: ClassVar[str]
    EMPTY: ClassVar[bytes]

    def __init__(
        self,
        request: ChatRequest | CompletionRequest,
        *,
        id: str,
        created: int,
        running_usage: bool = False,
    ) -> None:
        """running_usage: every chunk of a stream has the counts so far, null until there are any.

        The request's own `continuous_usage` implies it.
        """
        self._id = id
        self._created = created
        self._model = request.model
        self._include_usage = request.include_usage
        self._running_usage = running_usage or request.continuous_usage
        self._usage: Usage | None = None
        self._before: dict[int, bytes] = {}
        self._after = b""

    @cached_property
    def _chunks(self) -> ChunkWriter:
        """Created with the first chunk: an answer that is not streamed needs none."""
        return ChunkWriter(
            ChunkIdentity(id=self._id, object=self.CHUNK, created=self._created, model=self._model),
            usage=self._include_usage,
            running=self._running_usage,
        )

    def headers(self, backend: str) -> Headers:
        return []

    def events(self, batch: Sequence[Event]) -> bytes:
        if len(batch) == 1:
            # `_render` inlined for one plain piece of text, as most batches are.
            event = batch[0]
            if type(event) is TextDelta and event.text and not event.logprobs:
                before = self._before.get(event.index)
                if before is not None:
                    return before + encode(event.text) + self._after
        out: list[bytes] = []
        if self._running_usage:
            for part in _counted_parts(batch):
                self._count(part[-1])
                self._render(part, out)
        else:
            self._render(batch, out)
        return b"".join(out)

    def text(self, text: str, index: int) -> bytes:
        """Return what `events` does for a batch of one piece of text."""
        before = self._before.get(index)
        if before is not None:
            return before + encode(text) + self._after
        return self.events((TextDelta(text=text, index=index),))

    def _render(self, batch: Sequence[Event], out: list[bytes]) -> None:
        before, after = self._before, self._after
        for event in batch:
            if type(event) is TextDelta and event.index in before and not event.logprobs:
                if event.text:
                    out += (before[event.index], encode(event.text), after)
            else:
                self._event(event, out)
                before, after = self._before, self._after

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
        whole, extra = encode(body), answer.started.extra
        return with_members(whole, extra) if extra else whole

    def _count(self, last: Event) -> None:
        if isinstance(last, Usage) and last != self._usage:
            self._usage = last
            self._chunks.count(last)
            self._before.clear()

    @abstractmethod
    def _event(self, event: Event, out: list[bytes]) -> None:
        """Append the frames of an event that is not plain text of a choice that has begun."""

    @abstractmethod
    def _choice(self, choice: Choice, finish: Finished) -> Struct | Raw:
        """Return one choice of a whole answer, to be encoded."""

    def _put(self, choice: Struct, out: list[bytes]) -> None:
        out.append(self._chunks.chunk(encode(choice)))


def _counted_parts(batch: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Split the batch after each usage event; the last piece may have none."""
    start = 0
    for place, event in enumerate(batch, start=1):
        if isinstance(event, Usage) or place == len(batch):
            yield batch[start:place]
            start = place


def _finish(choice: Choice) -> Finished:
    if choice.finish is None:
        raise GatewayError(f"choice {choice.index} rendered before it was finished")
    return choice.finish
