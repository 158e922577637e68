"""The envelope of answers in OpenAI's dialect, whole and in chunks, for chats and completions.

`ChunkWriter` builds the bytes around a chunk's choice once; `OpenAIRenderer` is the base of both
renderers. Ids, unknown fields and log probabilities are the same in streams and whole answers.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.openai.bodies import error_body
from strowger_gateway.gateway.surfaces.openai.usage import usage_json
from strowger_gateway.gateway.surfaces.sse import DONE, frame, one_line
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import (
    OF_CHOICE,
    Event,
    Finished,
    Started,
    TextDelta,
    TokenLogprob,
    Usage,
)
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest

OURS: Final = frozenset(("id", "object", "created", "model", "choices", "usage"))
"""Top-level fields of an answer that a backend's unknown fields never replace."""

NEVER: Final = -9999.0
"""The dialect's value for the logarithm of a probability of 0, which JSON cannot represent."""

encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


def created_at(request_id: str) -> int:
    """Return the Unix seconds at which a UUIDv7 was created, RFC 9562 section 5.7."""
    return int(request_id[:8] + request_id[9:13], 16) // 1000


class ChunkIdentity(Struct, frozen=True, kw_only=True):
    """The fields that every chunk of an answer repeats. created: Unix seconds."""

    id: str
    object: str
    created: int
    model: str


class ChunkWriter:
    """Frames of one stream.

    head, tail: bytes before and after a chunk's choice; they change with `started` and `count`.
    """

    def __init__(self, identity: ChunkIdentity, *, usage: bool, running: bool) -> None:
        """usage: the last chunk carries usage. running: every chunk carries the counts so far."""
        self._identity = identity
        self._include_usage = usage
        self._counts = b"null" if usage or running else b""
        self._scalars = b""
        self._send_once: dict[str, Raw] = {}
        self._sent_once: dict[str, Raw] = {}
        self._has_unsent = False
        self.head = b""
        self.tail = b""
        self._write(identity)

    def started(self, started: Started) -> None:
        """Store the backend's own model name, and its unknown fields.

        Scalars are repeated in every chunk; objects and lists appear only in the next one, and
        again when a later `Started` changes them.
        """
        if started.model:
            self._identity = msgspec.structs.replace(self._identity, model=started.model)
        once: dict[str, Raw] = {}
        scalars: dict[str, Raw] = {}
        for name, raw in started.extra.items():
            (once if bytes(memoryview(raw)[:1]) in b"{[" else scalars)[name] = raw
        self._scalars, before = members(scalars), self._scalars
        self._has_unsent = self._has_unsent or self._scalars != before
        self._send_once = {
            name: raw for name, raw in once.items() if self._sent_once.get(name) != raw
        }
        self._write(self._identity)

    def count(self, usage: Usage) -> None:
        """Put these counts on every chunk from now on."""
        self._counts = one_line(usage_json(usage))
        self._write(self._identity)

    def chunk(self, choice: bytes) -> bytes:
        """Return the frame of one chunk with one choice, given as JSON."""
        self._has_unsent = False
        if self._send_once:
            return b"".join((self.head, choice, b"]", self._new(), self.tail[1:]))
        return b"".join((self.head, choice, self.tail))

    def around(self) -> tuple[bytes, bytes]:
        """Return the bytes before and after the choices of chunks that contain only text."""
        self._has_unsent = False
        return self.head, self.tail

    def finish(self, usage: Usage | None, empty: bytes) -> bytes:
        """Return the usage chunk, if the client asked and the backend counted, and the end mark.

        empty: a choice without content, for backend fields that arrived after the last chunk, if
        no usage chunk can carry them.
        """
        if usage is None or not self._include_usage:
            return self.chunk(empty) + DONE if self._send_once or self._has_unsent else DONE
        counts = one_line(usage_json(usage))
        fields = self._new() + self._scalars
        return b"".join((self.head, b"]", fields, b',"usage":', counts, b"}\n\n", DONE))

    def _new(self) -> bytes:
        """Return the objects and lists that the client has not received yet."""
        once, self._send_once = self._send_once, {}
        self._sent_once.update(once)
        return members(once)

    def _write(self, identity: ChunkIdentity) -> None:
        self.head = b"".join((b"data: ", encode(identity)[:-1], b',"choices":['))
        usage = b',"usage":' + self._counts if self._counts else b""
        self.tail = b"".join((b"]", self._scalars, usage, b"}\n\n"))


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


def members(extra: Mapping[str, Raw], kept: Collection[str] = OURS) -> bytes:
    """Return unknown fields as `,"name":value` each, on one line, for use before a closing brace.

    kept: names to leave out, because the gateway's own fields have them.
    """
    if not extra:
        return b""
    pieces: list[bytes] = []
    for marked, raw in extra.items():
        name = marked.removeprefix(OF_CHOICE)
        if name not in kept:
            pieces += (b",", encode(name), b":", one_line(bytes(raw)))
    return b"".join(pieces)


def with_members(body: bytes, extra: Mapping[str, Raw], kept: Collection[str] = OURS) -> bytes:
    """body: a JSON object that is not empty. kept: see `members`."""
    return b"".join((body[:-1], members(extra, kept), b"}")) if extra else body


def finite(logprob: float | None) -> float:
    return NEVER if logprob is None or math.isinf(logprob) else logprob


class RivalLogprob(Struct, frozen=True, kw_only=True):
    token: str
    logprob: float
    bytes: list[int]


class ChatLogprob(Struct, frozen=True, kw_only=True):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[RivalLogprob]


def chat_logprobs(logprobs: Iterable[TokenLogprob]) -> list[ChatLogprob]:
    """Return the chat format: each token with its bytes and its alternatives."""
    return [
        ChatLogprob(
            token=item.token,
            logprob=finite(item.logprob),
            bytes=_bytes(item),
            top_logprobs=[
                RivalLogprob(token=rival.token, logprob=finite(rival.logprob), bytes=_bytes(rival))
                for rival in item.top
            ],
        )
        for item in logprobs
    ]


def _bytes(item: TokenLogprob) -> list[int]:
    return list(item.token.encode() if item.bytes is None else item.bytes)


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
