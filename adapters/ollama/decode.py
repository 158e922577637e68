"""Decodes Ollama's answers to events: `/api/chat` and `/api/generate`, in lines or complete.

A line has the format of a complete answer, and the one with `done` is the last. Tool calls come
complete, their ids may be missing, and an answer with calls still ends with `stop`. Ollama omits
both counts of 0 and unknown counts.
https://github.com/ollama/ollama/blob/main/api/types.go
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.decoder_limits import NOTES, overfull
from strowger_gateway.adapters.errors import error_inside, unreadable
from strowger_gateway.adapters.generated_images import IMAGES, Image, image_of
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.openai.logprobs import chat_logprobs
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    OpaqueDelta,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolDelta,
    Usage,
)

FINISH: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}
"""`done_reason` -> ours; one in neither table is a `stop` with its native reason."""

NOTHING_GENERATED = frozenset({"load", "unload"})
"""Reasons for a request that the server took as a command to load or unload the model."""


_STARTS: Mapping[str, str] = {
    "/9j/": "image/jpeg",
    "R0lG": "image/gif",
    "UklG": "image/webp",
    "iVBO": "image/png",
}
"""The beginnings of images in base64."""


class _Function(Struct, frozen=True, kw_only=True):
    name: str = ""
    arguments: Raw = NULL


class _Call(Struct, frozen=True, kw_only=True):
    function: _Function
    id: str | None = None


class _Message(Struct, frozen=True, kw_only=True):
    content: str | None = None
    thinking: str | None = None
    tool_calls: tuple[_Call, ...] | None = None
    images: tuple[str, ...] | None = None


class _Counts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Durations in nanoseconds."""

    prompt_eval_count: int | None = None
    eval_count: int | None = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_duration: int | None = None
    eval_duration: int | None = None


class _Part(_Message, frozen=True, kw_only=True):
    """A line, or a complete answer. response: `/api/generate`; message: `/api/chat`.

    image: of a model that generates images; base64, as `images`.
    """

    model: str = ""
    created_at: str = ""
    response: str | None = None
    image: str | None = None
    message: _Message | None = None
    logprobs: tuple[Raw, ...] | None = None
    done: bool = False
    done_reason: str | None = None
    remote_model: str | None = None
    error: Raw = NULL


_read = msgspec.json.Decoder(_Part).decode
_counts = msgspec.json.Decoder(_Counts).decode
_encode = msgspec.json.Encoder().encode


class OllamaDecoder:
    """Decodes one answer, complete or streamed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._started = False
        self._shown = False
        self.ended = False
        self._prefix = ""
        self._tools = 0
        self._images: list[Image] = []

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        try:
            return self._events(_read(data), data)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, data) from exc

    def _events(self, part: _Part, data: bytes) -> Sequence[Event]:
        if part.error != NULL:
            raise error_inside(self._endpoint, data)
        if self.ended:
            return ()
        events: list[Event] = []
        if not self._started:
            self._begin(part, events)
        self._message(part, part.message or part, events)
        if part.done:
            self._end(part, data, events)
        return events

    def close(self) -> Sequence[Event]:
        if not self.ended:
            raise self._broken("stream ended early")
        return ()

    def _begin(self, part: _Part, events: list[Event]) -> None:
        self._started = True
        self._prefix = "".join(filter(str.isdigit, part.created_at))
        extra = {} if part.remote_model is None else {"remote_model": _raw(part.remote_model)}
        events.append(Started(model=part.model, created=_seconds(part.created_at), extra=extra))

    def _message(self, part: _Part, message: _Message, events: list[Event]) -> None:
        if message.thinking:
            events.append(ReasoningDelta(text=message.thinking))
        text = part.response if message.content is None else message.content
        logprobs = chat_logprobs(part.logprobs) if part.logprobs else ()
        if text or logprobs:
            self._shown = True
            events.append(TextDelta(text=text or "", logprobs=logprobs))
        for call in message.tool_calls or ():
            events.append(self._call(call))
            self._tools += 1
        for data in (*(message.images or ()), *filter(None, (part.image,))):
            if len(self._images) >= NOTES:
                raise overfull(NOTES, "images", self._endpoint.name)
            self._images.append(image_of(_media_type(data), data, len(self._images)))

    def _call(self, call: _Call) -> ToolDelta:
        """Emit a call. A generated id contains the answer's time to be unique in a conversation."""
        return ToolDelta(
            tool=self._tools,
            id=call.id or f"call_{self._prefix}_{self._tools}",
            name=call.function.name,
            arguments=_arguments(call.function.arguments),
        )

    def _end(self, part: _Part, data: bytes, events: list[Event]) -> None:
        word = part.done_reason or ""
        if word in NOTHING_GENERATED:
            raise UpstreamFailed(
                f"the answer ended with {word!r}: nothing was generated",
                upstream=self._endpoint.name,
                code=word,
            )
        self.ended = True
        reason = FINISH.get(word, "stop")
        if reason == "stop" and self._tools:
            reason = "tool_calls"
        if not self._shown and not self._tools:
            events.append(TextDelta(text=""))
        if self._images:
            events.append(OpaqueDelta(fields={IMAGES: Raw(_encode(self._images))}))
        events.append(Finished(reason=reason, native="" if word == reason else word))
        events.append(usage_from(data))

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)


def usage_from(data: bytes) -> Usage:
    """Read counts; unreadable ones are unknown and never fail an answer."""
    try:
        counts = _counts(data)
    except UNREADABLE:
        return Usage()
    prompt, completion = counts.prompt_eval_count, counts.eval_count
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=None if prompt is None or completion is None else prompt + completion,
        raw=Raw(_encode(counts)),
    )


def _arguments(raw: Raw) -> str:
    """Return an object as JSON text, `{}` for none; some proxies of Ollama send it as text."""
    if raw == NULL:
        return "{}"
    if bytes(raw).startswith(b'"'):
        return msgspec.json.decode(raw, type=str) or "{}"
    return bytes(raw).decode()


def _media_type(data: str) -> str:
    """Return the type of an image by its first bytes; Ollama sends no type."""
    return next((kind for start, kind in _STARTS.items() if data.startswith(start)), "image/png")


def _seconds(moment: str) -> int:
    """Return Unix seconds of an RFC 3339 time, 0 if it is not one."""
    try:
        return int(datetime.fromisoformat(moment).timestamp())
    except (ValueError, OverflowError):
        return 0


def _raw(text: str) -> Raw:
    return Raw(_encode(text))
