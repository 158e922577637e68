"""Render answers of `/api/chat` and `/api/generate`, whole and in lines.

The two differ in where the text is: in a `message`, or next to it as `response`. Calls are written
whole, at the end of the answer, because clients of this API do not put pieces together. Their
arguments are an object.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.adapters.generated_images import IMAGES
from strowger_gateway.gateway.surfaces.anthropic import proofs
from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.ollama import carried_context
from strowger_gateway.gateway.surfaces.ollama.answer_structs import OllamaLogprob
from strowger_gateway.gateway.surfaces.ollama.errors import error_body
from strowger_gateway.gateway.surfaces.ollama.images import generated
from strowger_gateway.gateway.surfaces.ollama.lines import (
    NDJSON,
    Clock,
    Stopwatch,
    stamp,
    with_fields,
)
from strowger_gateway.gateway.surfaces.openai.envelope import (
    chat_logprobs,
    encode,
    members,
)
from strowger_gateway.gateway.surfaces.sse import one_line
from strowger_gateway.gateway.surfaces.turn_renderer import TurnRenderer, finish_of
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    TokenLogprob,
    Tokens,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.measured_json import kind_of_json
from strowger_gateway.schemas.messages import ToolCall, text_of
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest

REASONS: Final[Mapping[FinishReason, str]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "stop",
    "function_call": "stop",
    "content_filter": "content_filter",
}
"""Ollama has the first two, and no word for an answer that a vendor withholds."""

_OURS: Final = frozenset(
    {
        "model",
        "created_at",
        "message",
        "response",
        "thinking",
        "done",
        "done_reason",
        "logprobs",
        "context",
        "id",
        "object",
        "created",
        "choices",
        "usage",
        "error",
        *("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration"),
        *("eval_count", "eval_duration", IMAGES, "image"),
    }
)
"""Fields that a backend's unknown ones never replace, and such of other dialects."""


class _Lines(TurnRenderer):
    """Render one answer. Mutable state: also the calls of a stream, and its last fields.

    text_field: the name of the text. before, after: around the members of one line's content.
    """

    text_field = b'"response":'
    before = b""
    after = b""

    def __init__(
        self,
        request: ChatRequest | CompletionRequest,
        request_id: str,
        *,
        clock: Clock = time.time_ns,
    ) -> None:
        self._model = request.model
        self._head = b'{"model":%b,"created_at":"' % encode(request.model)
        self._stream = request.stream
        self._watch = Stopwatch(request_id, clock)
        self._calls: dict[int, list[ToolDelta]] = {}
        self._middle = b'",%b' % self.before
        self._text_end = b'%b,"done":false}\n' % self.after

    def headers(self, backend: str) -> Headers:
        return [(b"content-type", NDJSON.encode())] if self._stream else []

    def answer(self, answer: Answer) -> bytes:
        choice = answer.choices[0]
        finish = finish_of(choice)
        text = (choice.text or "") + (choice.refusal or "")
        fields = [self.text_field + encode(text)]
        if choice.reasoning:
            fields.append(b'"thinking":' + encode(choice.reasoning))
        if choice.tool_calls:
            calls = [_call(one, place) for place, one in enumerate(choice.tool_calls)]
            fields.append(b'"tool_calls":[%b]' % b",".join(calls))
        logprobs = (*choice.logprobs, *choice.refusal_logprobs)
        extra = {**answer.started.extra, **choice.opaque}
        return self._last(fields, finish, answer.usage, extra, text, _logprobs(logprobs))

    def events(self, batch: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        for event in batch:
            match event:
                case TextDelta() | RefusalDelta() | Tokens():
                    if event.text or event.logprobs:
                        out.append(self._text(event.text, event.logprobs))
                case ReasoningDelta():
                    if event.text:
                        thought = b'"","thinking":' + encode(event.text)
                        out.append(self._line(self.text_field + thought))
                case ToolDelta():
                    self._watch.content()
                    self._calls.setdefault(event.tool, []).append(event)
                case _:
                    self._keeps(event)
        return b"".join(out)

    def text(self, text: str, index: int) -> bytes:
        """See `strowger_gateway.schemas.events.TextSink`."""
        return self._text(text, ())

    def finish(self) -> bytes:
        """Write the calls, and the line with `done`."""
        out: list[bytes] = []
        if self._calls:
            calls = [_call(_whole(self._calls[at]), at) for at in sorted(self._calls)]
            out.append(self._line(self.text_field + b'"","tool_calls":[%b]' % b",".join(calls)))
        fields = [self.text_field + b'""']
        end = self._end or Finished(reason="stop")
        extra = {**self._started.extra, **self._opaque}
        out += (self._last(fields, end, self._usage, extra, self._said()), b"\n")
        return b"".join(out)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc) + b"\n"

    def _text(self, text: str, logprobs: Sequence[TokenLogprob]) -> bytes:
        self._note(text)
        if logprobs:
            return self._line(self.text_field + encode(text), _logprobs(logprobs))
        self._watch.content()
        return b"".join(
            (
                self._head,
                stamp(self._watch.clock()),
                self._middle,
                self.text_field,
                encode(text),
                self._text_end,
            )
        )

    def _line(self, fields: bytes, more: bytes = b"") -> bytes:
        """more: members next to the content, each with a comma before it."""
        self._watch.content()
        at = stamp(self._watch.clock())
        return b"".join(
            (self._head, at, self._middle, fields, self.after, more, b',"done":false}\n')
        )

    def _last(
        self,
        fields: Sequence[bytes],
        finish: Finished,
        usage: Usage | None,
        extra: Mapping[str, Raw],
        said: str,
        more: bytes = b"",
    ) -> bytes:
        """Return the object with `done`, on one line. said: the whole text."""
        end = _End(done_reason=REASONS[finish.reason], context=self._context(said))
        head = b"".join(
            (
                self._head,
                stamp(self._watch.clock()),
                self._middle,
                b",".join(fields),
                self.after,
                more,
                _images(extra),
                members(extra, _OURS),
            )
        )
        closed = with_fields(head, end)
        return with_fields(closed[:-1], self._watch.times(usage))

    def _note(self, text: str) -> None:
        """Keep what the end of the answer needs of a piece of its text."""

    def _said(self) -> str:
        """Return the text of the stream, if it was kept."""
        return ""

    def _context(self, said: str) -> list[int] | UnsetType:
        return UNSET


class OllamaChatRenderer(_Lines):
    """Of `/api/chat`."""

    text_field = b'"content":'
    before = b'"message":{"role":"assistant",'
    after = b"}"


class OllamaGenerateRenderer(_Lines):
    """Of `/api/generate`: also the conversation so far, for the next request."""

    def __init__(
        self,
        request: ChatRequest | CompletionRequest,
        request_id: str,
        *,
        clock: Clock = time.time_ns,
    ) -> None:
        super().__init__(request, request_id, clock=clock)
        self._turns: list[tuple[str, str]] | None = None
        if isinstance(request, ChatRequest):
            self._turns = [(one.role, text_of(one)) for one in request.messages]
        self._pieces: list[str] = []

    def _note(self, text: str) -> None:
        self._pieces.append(text)

    def _said(self) -> str:
        return "".join(self._pieces)

    def _context(self, said: str) -> list[int] | UnsetType:
        if self._turns is None:
            return UNSET
        found = carried_context.written([*self._turns, ("assistant", said)])
        return UNSET if found is None else found


class _End(Struct, frozen=True, kw_only=True):
    done: bool = True
    done_reason: str
    context: list[int] | UnsetType = UNSET


class _Logprobs(Struct, frozen=True, kw_only=True):
    logprobs: list[OllamaLogprob]


def _logprobs(logprobs: Sequence[TokenLogprob]) -> bytes:
    """Return the member, with a comma before it; b"" for none."""
    if not logprobs:
        return b""
    found = [
        OllamaLogprob(
            token=one.token,
            logprob=one.logprob,
            bytes=one.bytes,
            top_logprobs=one.top_logprobs or UNSET,
        )
        for one in chat_logprobs(logprobs)
    ]
    return b"," + encode(_Logprobs(logprobs=found))[1:-1]


def _images(extra: Mapping[str, Raw]) -> bytes:
    """Return the member with the images that the model has made, with a comma before it.

    Next to the message: Ollama's own Python client does not read strings as images of an answer.
    `image` is what its models that make images answer with.
    """
    images = generated(extra[IMAGES]) if IMAGES in extra else []
    if not images:
        return b""
    return b',"image":%b,"images":%b' % (encode(images[0]), encode(images))


def _whole(pieces: Sequence[ToolDelta]) -> ToolCall:
    first = pieces[0]
    arguments = "".join([one.arguments for one in pieces])
    return ToolCall(
        id=first.id, name=first.name, arguments=arguments or "{}", signature=first.signature
    )


def _call(call: ToolCall, place: int) -> bytes:
    """The id has the vendor's signature in it, where it can; clients that keep ids return it."""
    arguments = call.arguments or "{}"
    if kind_of_json(arguments) != "{":
        # Cut off by a limit, or not what the tool takes: clients need an object.
        arguments = "{}"
    id = (call.signature and proofs.signed_id(call.id, call.signature)) or proofs.unsigned_id(
        call.id
    )
    return b'{"id":%b,"function":{"index":%d,"name":%b,"arguments":%b}}' % (
        encode(id),
        place,
        encode(call.name),
        one_line(arguments.encode()),
    )
