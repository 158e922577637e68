"""Decodes answers of `/ai/run/MODEL` to events, streamed or complete.

Older models answer with `response`, without a finish reason and without ids of calls. Newer ones
answer with `choices`, as OpenAI does, in the same envelope. A stream has no envelope but the same
fields, and ends with `[DONE]`.
https://developers.cloudflare.com/workers-ai/features/function-calling/
"""

from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import STRAY, Endpoint
from strowger_gateway.adapters.errors import error_from
from strowger_gateway.schemas.errors import GatewayError, UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest
from strowger_workers_ai.failures import UNREADABLE, meant_status

DONE = b"[DONE]"
NULL = Raw(b"null")

FINISH: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
}
FAILED = frozenset({"error"})


class _Function(Struct, frozen=True, kw_only=True):
    name: str | None = None
    arguments: Raw = NULL


class _Call(_Function, frozen=True, kw_only=True):
    """A complete call with name and object, or a part of the call at `index`, in `function`."""

    index: int = 0
    id: str | None = None
    function: _Function | None = None


class _Message(Struct, frozen=True, kw_only=True):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[_Call, ...] | None = None


class _Choice(Struct, frozen=True, kw_only=True):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None
    text: str | None = None


class _Piece(Struct, frozen=True, kw_only=True):
    """A complete result, or one frame of a stream."""

    id: str = ""
    response: Raw = NULL
    tool_calls: tuple[_Call, ...] | None = None
    choices: tuple[_Choice, ...] | None = None
    usage: Raw = NULL
    success: bool = True


class _Envelope(Struct, frozen=True, kw_only=True):
    result: _Piece | None = None
    success: bool = True


class _Details(Struct, frozen=True, kw_only=True):
    cached_tokens: float | None = None


class _Counts(Struct, frozen=True, kw_only=True):
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    total_tokens: float | None = None
    prompt_tokens_details: _Details | None = None


_piece = msgspec.json.Decoder(_Piece).decode
_envelope = msgspec.json.Decoder(_Envelope).decode
_counts = msgspec.json.Decoder(_Counts).decode
_text = msgspec.json.Decoder(str).decode


class WorkersAiDecoder:
    """Decodes one answer to `request`."""

    def __init__(self, endpoint: Endpoint, request: ChatRequest | CompletionRequest) -> None:
        self._endpoint = endpoint
        self._stream = request.stream
        self._limit = request.sampling.max_tokens
        self._started = False
        self._shown = False
        self._finished = False
        self._native = ""
        self._usage = Usage()
        # The arguments of each call so far.
        self._calls: list[str] = []

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        if self._finished:
            return ()
        if event in (STRAY, "error"):
            raise self._failure(data)
        if not self._stream:
            return list(self._whole(data))
        return list(self._end() if data == DONE else self._frame(data))

    def close(self) -> Sequence[Event]:
        if not self._finished:
            raise UpstreamBroken("stream ended early", upstream=self._endpoint.name)
        return ()

    def _whole(self, data: bytes) -> Iterator[Event]:
        try:
            envelope = _envelope(data)
        except UNREADABLE as exc:
            raise self._broken(data) from exc
        if not envelope.success:
            raise self._failure(data)
        if envelope.result is None:
            raise self._broken(data)
        yield from self._take(envelope.result)
        yield from self._end()

    def _frame(self, data: bytes) -> Iterator[Event]:
        try:
            piece = _piece(data)
        except UNREADABLE as exc:
            raise self._broken(data) from exc
        if not piece.success:
            raise self._failure(data)
        yield from self._take(piece)

    def _take(self, piece: _Piece) -> Iterator[Event]:
        if not self._started:
            self._started = True
            yield Started(id=piece.id)
        yield from self._say(_as_text(piece.response))
        for call in piece.tool_calls or ():
            yield from self._call(call)
        for choice in piece.choices or ():
            message = choice.message or choice.delta or _Message(content=choice.text)
            if message.reasoning_content:
                yield ReasoningDelta(text=message.reasoning_content)
            yield from self._say(message.content or "")
            for call in message.tool_calls or ():
                yield from self._call(call)
            self._native = choice.finish_reason or self._native
        if piece.usage != NULL:
            self._usage = _usage(piece.usage)

    def _say(self, text: str) -> Iterator[Event]:
        if text:
            self._shown = True
            yield TextDelta(text=text)

    def _call(self, call: _Call) -> Iterator[Event]:
        function = call.function
        if function is not None and call.index < len(self._calls):
            place = call.index
            yield from self._add(place, _as_text(function.arguments))
            return
        name = (function or call).name
        if not name:
            return
        place = len(self._calls)
        arguments = _as_text((function or call).arguments)
        made_up = f"call_{crc32(f'{name} {arguments}'.encode()):08x}_{place}"
        self._calls.append("")
        yield ToolDelta(tool=place, id=call.id or made_up, name=name)
        yield from self._add(place, arguments)

    def _add(self, place: int, arguments: str) -> Iterator[Event]:
        if arguments:
            self._calls[place] += arguments
            yield ToolDelta(tool=place, arguments=arguments)

    def _end(self) -> Iterator[Event]:
        if self._native in FAILED:
            raise UpstreamFailed(
                f"the answer ended with {self._native!r}", upstream=self._endpoint.name
            )
        self._finished = True
        for place, arguments in enumerate(self._calls):
            if not arguments:
                yield from self._add(place, "{}")
        if not self._shown and not self._calls:
            yield TextDelta(text="")
        yield Finished(reason=self._reason(), native=self._native)
        yield self._usage

    def _reason(self) -> FinishReason:
        """`length` if the answer has all permitted tokens, because the vendor sends no reason."""
        if self._calls:
            return "tool_calls"
        count = self._usage.completion_tokens
        if not self._native and isinstance(self._limit, int) and count is not None:
            return "length" if count >= self._limit else "stop"
        return FINISH.get(self._native, "stop")

    def _failure(self, data: bytes) -> GatewayError:
        return error_from(self._endpoint, meant_status(data) or 500, {}, data)

    def _broken(self, data: bytes) -> UpstreamBroken:
        head = data[:80].decode(errors="replace")
        return UpstreamBroken(f"cannot read the answer: {head}", upstream=self._endpoint.name)


def _as_text(raw: Raw) -> str:
    """Return the text of a string, else the JSON (of a number, or an answer in JSON mode)."""
    data = bytes(raw)
    if data == NULL:
        return ""
    return _text(data) if data.startswith(b'"') else data.decode()


def _usage(raw: Raw) -> Usage:
    """Invalid counts are unknown; `raw` still has them."""
    kept = raw.copy()
    try:
        found = _counts(kept)
    except UNREADABLE:
        return Usage(raw=kept)
    details = found.prompt_tokens_details
    return Usage(
        prompt_tokens=_integer(found.prompt_tokens),
        completion_tokens=_integer(found.completion_tokens),
        total_tokens=_integer(found.total_tokens),
        cached_tokens=None if details is None else _integer(details.cached_tokens),
        raw=kept,
    )


def _integer(count: float | None) -> int | None:
    return None if count is None else int(count)
