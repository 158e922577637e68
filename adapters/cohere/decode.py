"""Decodes answers of Cohere's `/v2/chat` to events, streamed or complete.

A plan made before tool calls becomes reasoning. Events name their type, content and tools are
numbered separately, a tool event has one call instead of a list, and `message-end` is the end: with
`ERROR` or `TIMEOUT` it is a failure inside a 200.
https://docs.cohere.com/reference/chat-stream
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import STRAY, Endpoint
from strowger_gateway.adapters.decoder_limits import NOTES, TOOLS, overfull
from strowger_gateway.adapters.errors import error_inside, unreadable
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.adapters.openai.decode import DONE
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBroken,
    UpstreamError,
    UpstreamFailed,
    UpstreamTimeout,
)
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    OpaqueDelta,
    ReasoningDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolDelta,
    Usage,
)

FINISH: Mapping[str, FinishReason] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool_calls",
}
"""Finish reasons -> ours; one in neither table is a `stop` with its native reason."""

FAILED: Mapping[str, type[UpstreamError]] = {"ERROR": UpstreamFailed, "TIMEOUT": UpstreamTimeout}


class _Counts(Struct, frozen=True, kw_only=True):
    """Counts, sent as floats."""

    input_tokens: float | None = None
    output_tokens: float | None = None


class _Usage(Struct, frozen=True, kw_only=True):
    tokens: _Counts | None = None
    cached_tokens: float | None = None


class _Function(Struct, frozen=True, kw_only=True):
    name: str | None = None
    arguments: str | None = None


class _Call(Struct, frozen=True, kw_only=True):
    id: str | None = None
    function: _Function | None = None


class _Piece(Struct, frozen=True, kw_only=True):
    text: str | None = None
    thinking: str | None = None


class _Logprobs(Struct, frozen=True, kw_only=True):
    """text: of all these tokens together."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None


class _Message(Struct, frozen=True, kw_only=True):
    """A list in a complete message is a single item in most events."""

    content: tuple[_Piece, ...] | _Piece | None = None
    tool_plan: str | None = None
    tool_calls: tuple[_Call, ...] | _Call | None = None
    citations: Raw = NULL


class _End(Struct, frozen=True, kw_only=True):
    message: _Message | None = None
    finish_reason: str | None = None
    usage: Raw = NULL
    error: str | None = None


class _Whole(_End, frozen=True, kw_only=True):
    id: str | None = None
    logprobs: tuple[_Logprobs, ...] | None = None


class _Event(Struct, frozen=True, kw_only=True):
    type: str
    id: str | None = None
    index: int | None = None
    delta: _End | None = None
    logprobs: _Logprobs | None = None


_NO_MESSAGE = _Message()
_NO_FUNCTION = _Function()
_NO_END = _End()

_read_event = msgspec.json.Decoder(_Event).decode
_read_whole = msgspec.json.Decoder(_Whole).decode
_usage = msgspec.json.Decoder(_Usage).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode


class _ToolCall:
    """A call being assembled; arguments that may still be `null`, for none, are held back."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._held = ""
        self._written = False

    def begin(self, id: str, name: str) -> ToolDelta:
        return ToolDelta(tool=self._place, id=id, name=name)

    def add(self, arguments: str) -> Iterator[ToolDelta]:
        self._held += arguments
        if self._held and not (not self._written and "null".startswith(self._held.strip())):
            yield self._flush(self._held)

    def close(self) -> Iterator[ToolDelta]:
        if not self._written:
            yield self._flush("{}")

    def _flush(self, arguments: str) -> ToolDelta:
        self._written, self._held = True, ""
        return ToolDelta(tool=self._place, arguments=arguments)


class CohereDecoder:
    """Decodes one answer. stream: whether a stream was requested."""

    def __init__(self, endpoint: Endpoint, *, stream: bool) -> None:
        self._endpoint = endpoint
        self._stream = stream
        self._id = ""
        self._shown = False
        self.ended = False
        self._calls: dict[int, _ToolCall] = {}
        self._citations: list[Raw] = []

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        if self.ended or data == DONE:
            return ()
        if event in (STRAY, "error"):
            raise error_inside(self._endpoint, data)
        return list(self._step(data) if self._stream else self._whole(data))

    def close(self) -> Sequence[Event]:
        if not self.ended:
            raise self._broken("stream ended early")
        return ()

    def _step(self, data: bytes) -> Iterator[Event]:
        try:
            step = _read_event(data)
        except UNREADABLE as exc:
            raise self._unreadable(data) from exc
        delta = step.delta or _NO_END
        message, index = delta.message or _NO_MESSAGE, step.index or 0
        match step.type:
            case "message-start":
                yield self._begin(step.id or "")
            case "content-start" | "content-delta" | "tool-plan-delta":
                yield from self._content(message, _logprobs(step.logprobs))
            case "tool-call-start" | "tool-call-delta":
                for call in _calls(message.tool_calls):
                    yield from self._call(index, call)
            case "tool-call-end" if index in self._calls:
                yield from self._calls[index].close()
            case "citation-start" if message.citations != NULL:
                if len(self._citations) >= NOTES:
                    raise overfull(NOTES, "citations", self._endpoint.name)
                self._citations += _as_list(message.citations)
            case "message-end":
                yield from self._end(delta)
            case _:
                pass

    def _whole(self, data: bytes) -> Iterator[Event]:
        try:
            answer = _read_whole(data)
        except UNREADABLE as exc:
            raise self._unreadable(data) from exc
        if answer.finish_reason is None:
            raise self._unreadable(data)
        yield self._begin(answer.id or "")
        message = answer.message or _NO_MESSAGE
        logprobs = tuple(one for item in answer.logprobs or () for one in _logprobs(item))
        yield from self._content(message, logprobs)
        for place, call in enumerate(_calls(message.tool_calls)):
            yield from self._call(place, call)
        if message.citations != NULL:
            self._citations += _as_list(message.citations)
        yield from self._end(answer)

    def _begin(self, id: str) -> Started:
        self._id = id
        return Started(id=id)

    def _content(self, message: _Message, logprobs: tuple[TokenLogprob, ...]) -> Iterator[Event]:
        """Emit content; log probabilities belong to the first text."""
        if message.tool_plan:
            yield ReasoningDelta(text=message.tool_plan)
        for piece in _pieces(message.content):
            if piece.thinking:
                yield ReasoningDelta(text=piece.thinking)
            if piece.text:
                self._shown = True
                yield TextDelta(text=piece.text, logprobs=logprobs)
                logprobs = ()

    def _call(self, index: int, call: _Call) -> Iterator[Event]:
        known = self._calls.get(index)
        function = call.function or _NO_FUNCTION
        if known is None:
            if len(self._calls) >= TOOLS:
                raise overfull(TOOLS, "tool calls", self._endpoint.name)
            place = len(self._calls)
            known = self._calls[index] = _ToolCall(place)
            yield known.begin(call.id or f"call_{self._id}_{place}", function.name or "")
        yield from known.add(function.arguments or "")

    def _end(self, end: _End) -> Iterator[Event]:
        word = end.finish_reason or ""
        if word in FAILED or end.error:
            kind = FAILED.get(word, UpstreamFailed)
            text = end.error or f"the answer ended with {word!r}"
            usage = None if end.usage == NULL else usage_from(end.usage)
            name, code = self._endpoint.name, word.lower() or None
            raise kind(text, upstream=name, code=code, usage=usage)
        self.ended = True
        for call in self._calls.values():
            yield from call.close()
        if not self._shown and not self._calls:
            yield TextDelta(text="")
        if self._citations:
            yield OpaqueDelta(fields={"citations": Raw(_encode(self._citations))})
        reason = FINISH.get(word, "stop")
        if reason in ("stop", "tool_calls"):  # whichever it says: some call, some only say so
            reason = "tool_calls" if self._calls else "stop"
        yield Finished(reason=reason, native=word)
        if end.usage != NULL:
            yield usage_from(end.usage)

    def _unreadable(self, data: bytes) -> GatewayError:
        """Return the error inside a 200, or UpstreamBroken for an unreadable answer."""
        try:
            fields = read_object(data)
        except UNREADABLE:
            fields = {}
        if bytes(fields.get("message", NULL)).startswith(b'"'):
            return error_inside(self._endpoint, data)
        return unreadable(self._endpoint, data)

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)


def usage_from(raw: Raw) -> Usage:
    """Read counts; unreadable ones are unknown; `raw` keeps them, and the billed units."""
    kept = raw.copy()
    try:
        found = _usage(kept)
    except UNREADABLE:
        return Usage(raw=kept)
    counts = found.tokens or _Counts()
    prompt, completion = _whole_number(counts.input_tokens), _whole_number(counts.output_tokens)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=None if prompt is None or completion is None else prompt + completion,
        cached_tokens=_whole_number(found.cached_tokens),
        raw=kept,
    )


def _logprobs(item: _Logprobs | None) -> tuple[TokenLogprob, ...]:
    """Return one entry per token; the first has the text of all, which Cohere does not split."""
    if item is None:
        return ()
    values = item.logprobs or ()
    return tuple(
        TokenLogprob(
            token="" if place else item.text,
            logprob=values[place] if place < len(values) else None,
            id=token,
        )
        for place, token in enumerate(item.token_ids)
    )


def _pieces(content: tuple[_Piece, ...] | _Piece | None) -> tuple[_Piece, ...]:
    return (content,) if isinstance(content, _Piece) else content or ()


def _calls(calls: tuple[_Call, ...] | _Call | None) -> tuple[_Call, ...]:
    return (calls,) if isinstance(calls, _Call) else calls or ()


def _as_list(raw: Raw) -> list[Raw]:
    kept = raw.copy()
    return _list(kept) if bytes(kept).startswith(b"[") else [kept]


def _whole_number(count: float | None) -> int | None:
    return None if count is None else int(count)
