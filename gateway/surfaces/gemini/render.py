"""Render answers of the Gemini API, whole and streamed.

Each frame of a stream has the form of a whole answer: a server-sent event, or without `alt=sse` an
entry of a JSON list. https://ai.google.dev/api/generate-content#generatecontentresponse
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.gateway.surfaces.base import JSON, Headers
from strowger_gateway.gateway.surfaces.gemini.candidate import (
    CONTENT,
    finish_reason,
    grounding_member,
    image_parts,
    is_googles,
    logprobs_member,
    own_members,
)
from strowger_gateway.gateway.surfaces.gemini.errors import error_body
from strowger_gateway.gateway.surfaces.gemini.generation_config import wants_thoughts
from strowger_gateway.gateway.surfaces.gemini.part_writer import PartWriter
from strowger_gateway.gateway.surfaces.gemini.usage import usage_metadata
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.sse import one_line
from strowger_gateway.gateway.surfaces.turn_renderer import finish_of, own_names
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    NativeDelta,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    TokenLogprob,
    Tokens,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.messages import GEMINI
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.searches import offers_search

_LISTED: Final[Headers] = [(b"content-type", JSON.encode())]

FEEDBACK: Final = "prompt_feedback"
_USAGE: Final = b',"usageMetadata":'


class _Feedback(Struct, frozen=True, kw_only=True, rename="camel"):
    block_reason: str | None = None


_feedback: Final = msgspec.json.Decoder(_Feedback)


class _Candidate(Struct, kw_only=True):
    """The state of one candidate of a stream. texts: what it said, if it may cite."""

    writer: PartWriter
    texts: list[str]
    refusal: str = ""
    opaque: Mapping[str, Raw] = {}
    finish: Finished | None = None


class GenerateContentRenderer:
    """Render one answer. Mutable state: the head, usage and the candidates so far."""

    def __init__(self, request: ChatRequest, *, id: str, listed: bool = False) -> None:
        """id: the answer's. listed: a stream is a JSON list."""
        self._id = id
        self._request = request
        self._listed = listed
        self._shows = wants_thoughts(request)
        self._searches = offers_search(request)
        self._started = Started()
        self._usage: Usage | None = None
        self._candidates: dict[int, _Candidate] = {}
        self._framed = False
        self._told: Mapping[str, Raw] = {}
        self._tail = self._head()

    def headers(self, backend: str) -> Headers:
        return _LISTED if self._listed and self._request.stream else []

    def answer(self, answer: Answer) -> bytes:
        self._started = answer.started
        self._tail = self._head()
        counted = b"" if answer.usage is None else _USAGE + usage_metadata(answer.usage)
        others = own_members(answer.started.extra)
        if _is_blocked(answer.started.extra) and not any(one.text for one in answer.choices):
            return b"{%b%b" % ((others + counted + self._tail)[1:], b"}")
        candidates = [self._whole(choice) for choice in answer.choices]
        return b'{"candidates":[%b]%b%b%b}' % (b",".join(candidates), others, counted, self._tail)

    def events(self, batch: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        for event in batch:
            if type(event) is TextDelta:
                self._text(event.text, event.index, event.logprobs, out)
            else:
                self._event(event, out)
        return b"".join(out)

    def text(self, text: str, index: int) -> bytes:
        """Return what `events` does for a batch of one piece of text."""
        out: list[bytes] = []
        self._text(text, index, (), out)
        return b"".join(out)

    def finish(self) -> bytes:
        """Return the end of every candidate, with the counts, which may come after the reason."""
        counted = b"" if self._usage is None else _USAGE + usage_metadata(self._usage)
        extra = self._started.extra
        if _is_blocked(extra) and not any(one.texts for one in self._candidates.values()):
            body = b"{%b}" % (own_members(extra) + counted + self._tail)[1:]
            return self._frame(body) + self._end()
        ends = [self._last(index, one) for index, one in sorted(self._candidates.items())]
        if not ends:
            ends = [self._last(0, self._candidate(0))]
        body = b'{"candidates":[%b]%b%b%b}' % (
            b",".join(ends),
            self._new_members(),
            counted,
            self._tail,
        )
        return self._frame(body) + self._end()

    def error(self, exc: GatewayError) -> bytes:
        return self._frame(error_body(exc)) + self._end()

    def _text(
        self, text: str, index: int, logprobs: Sequence[TokenLogprob], out: list[bytes]
    ) -> None:
        one = self._candidate(index)
        if not (text or logprobs):
            return
        if self._searches or not one.texts:
            one.texts.append(text)
        if one.writer.plain and not logprobs:
            part = b'{"text":%b}' % encode(text)
        else:
            part = b",".join(one.writer.text(text))
        self._put(index, part, out, logprobs_member(logprobs))

    def _event(self, event: Event, out: list[bytes]) -> None:
        match event:
            case Started():
                self._started = event
                self._tail = self._head()
            case Usage():
                self._usage = event
            case Tokens():
                self._text(event.text, event.index, event.logprobs, out)
            case RefusalDelta():
                self._candidate(event.index).refusal += event.text
            case ReasoningDelta():
                parts = self._candidate(event.index).writer.thought(event)
                self._put(event.index, b",".join(parts), out)
            case ToolDelta():
                self._candidate(event.index).writer.tool(event)
            case NativeDelta(block=Raw() as raw) | NativeDelta(delta=Raw() as raw):
                parts = self._candidate(event.index).writer.native(raw)
                self._put(event.index, b",".join(parts), out)
            case OpaqueDelta():
                one = self._candidate(event.index)
                one.opaque = {**one.opaque, **own_names(event.fields)}
            case Finished():
                one = self._candidate(event.index)
                one.finish = event
                self._put(event.index, b",".join(one.writer.complete()), out)
            case _:
                pass

    def _candidate(self, index: int) -> _Candidate:
        found = self._candidates.get(index)
        if found is None:
            writer = PartWriter(index, thoughts=self._shows)
            found = self._candidates[index] = _Candidate(writer=writer, texts=[])
            writer.answer = self._started.id
        return found

    def _put(self, index: int, parts: bytes, out: list[bytes], more: bytes = b"") -> None:
        """Append a frame with parts of a candidate, if there are any."""
        if not (parts or more):
            return
        body = b'{"candidates":[{"content":{"parts":[%b],"role":"model"},"index":%d%b}]%b%b}' % (
            parts,
            index,
            more,
            self._new_members(),
            self._tail,
        )
        out.append(self._frame(body))

    def _last(self, index: int, one: _Candidate) -> bytes:
        finish = one.finish or Finished(reason="stop", index=index)
        parts = [*one.writer.finish(), *image_parts(one.opaque)]
        return self._ended(index, finish, parts, one.opaque, one.refusal, "".join(one.texts), b"")

    def _whole(self, choice: Choice) -> bytes:
        text = choice.text or ""
        refusal = choice.refusal or ""
        content = choice.opaque.get(CONTENT)
        parts = _parts(content) if content is not None else self._parts(choice, text)
        logprobs = logprobs_member(choice.logprobs)
        opaque = own_names(choice.opaque)
        if content is not None:
            opaque = {name: raw for name, raw in opaque.items() if name != "images"}
        return self._ended(choice.index, finish_of(choice), parts, opaque, refusal, text, logprobs)

    def _parts(self, choice: Choice, text: str) -> list[bytes]:
        """Return the parts in the order of this API: reasoning, text, images, calls."""
        writer = PartWriter(choice.index, thoughts=self._shows)
        writer.answer = self._started.id
        parts: list[bytes] = []
        loose: list[bytes] = []
        for place, one in enumerate(choice.thoughts):
            event = ReasoningDelta(
                text=one.text,
                signature=one.signature,
                data=one.data,
                format=one.format,
                block=place,
            )
            behind = one.format == GEMINI and not (one.text or one.data)
            (loose if behind else parts).extend(writer.thought(event))
        parts += writer.text(text) if text else []
        parts += loose
        parts += image_parts(choice.opaque)
        for place, call in enumerate(choice.tool_calls):
            writer.tool(
                ToolDelta(
                    tool=place,
                    id=call.id,
                    name=call.name,
                    arguments=call.arguments,
                    signature=call.signature,
                )
            )
        return [*parts, *writer.finish()]

    def _ended(
        self,
        index: int,
        finish: Finished,
        parts: list[bytes],
        opaque: Mapping[str, Raw],
        refusal: str,
        text: str,
        logprobs: bytes,
    ) -> bytes:
        """Return a candidate that is complete. text: the answer's, for what it cites."""
        message = b""
        if refusal and is_googles(finish):
            message = b',"finishMessage":' + encode(refusal)
        elif refusal:
            parts = [*parts, b'{"text":%b}' % encode(refusal)]
        reason = finish_reason(finish)
        if refusal and reason == "STOP":
            reason = "SAFETY"
        cited = grounding_member(opaque, text) if self._searches else b""
        return b"".join(
            (
                b'{"content":{"parts":[%b],"role":"model"}' % b",".join(parts or [b'{"text":""}']),
                b',"finishReason":%b,"index":%d' % (encode(reason), index),
                message,
                logprobs,
                cited,
                own_members(opaque),
                b"}",
            )
        )

    def _new_members(self) -> bytes:
        """Return the backend's further fields of the answer that were not yet sent."""
        extra = self._started.extra
        if extra is self._told or not extra:
            return b""
        new = {name: raw for name, raw in extra.items() if self._told.get(name) != raw}
        self._told = extra
        return own_members(new)

    def _head(self) -> bytes:
        """Return what every frame has behind its candidates."""
        model = self._started.model or self._request.model
        created = b""
        if self._started.created:
            at = datetime.fromtimestamp(self._started.created, UTC)
            created = b',"createTime":"%b"' % at.strftime("%Y-%m-%dT%H:%M:%SZ").encode()
        return b',"modelVersion":%b%b,"responseId":%b' % (
            encode(model),
            created,
            encode(self._id),
        )

    def _frame(self, body: bytes) -> bytes:
        if not self._listed:
            return b"data: %b\n\n" % body
        begins, self._framed = (b",\r\n" if self._framed else b"["), True
        return begins + body

    def _end(self) -> bytes:
        return b"]" if self._listed else b""


def _parts(content: Raw) -> list[bytes]:
    """Return the parts of Google's own content."""
    return [one_line(bytes(raw)) for raw in _raws.decode(content)]


_raws: Final = msgspec.json.Decoder(list[Raw])


def _is_blocked(extra: Mapping[str, Raw]) -> bool:
    """Return whether Google rejected the prompt, so that there are no candidates."""
    raw = extra.get(FEEDBACK)
    if raw is None:
        return False
    try:
        return bool(_feedback.decode(raw).block_reason)
    except (DecodeError, RecursionError):
        return False
