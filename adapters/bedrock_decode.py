"""Answers of Converse and ConverseStream as events.

A stream's blocks are numbered over all kinds, may begin without saying so, and its counts come
after its end. A whole answer has the same blocks, one behind the other.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from adapters import bedrock_wire as wire
from adapters.base import Endpoint
from adapters.bedrock_blocks import tool_name
from adapters.bedrock_errors import error_in_stream
from adapters.bounds import BLOCKS, NOTES, TOOLS, check_room
from adapters.eventstream import ERROR, EXCEPTION
from adapters.openai_wire import NULL, UNREADABLE
from schemas.errors import UpstreamBroken, UpstreamFailed
from schemas.events import (
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
from schemas.messages import CLAUDE, FunctionTool
from schemas.requests import ChatRequest, GenerateRequest

FINISH: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
"""`stopReason` -> ours; a word that is in neither table is a `stop` of its own."""

MALFORMED = frozenset({"malformed_model_output", "malformed_tool_use"})
"""The model wrote what nobody can use."""

ABOUT = ("trace", "additionalModelResponseFields", "serviceTier", "performanceConfig")
"""Fields of a whole answer that travel on as they are."""

_encode = msgspec.json.Encoder().encode


class ConverseDecoder:
    """Reads one answer, whole or streamed. id: what the head says, "" where it says nothing."""

    def __init__(self, endpoint: Endpoint, request: GenerateRequest, id: str = "") -> None:
        self._endpoint = endpoint
        self._id = id
        self._names = _rewritten(request)
        # The mutable state of one answer: how far it is, and which block is which.
        self._started = False
        self._finished = False
        self._failed = ""
        self._shown = False
        self._tools: dict[int, int] = {}
        self._passed_over: set[int] = set()
        self._thoughts: dict[int, int] = {}
        self._proofs: dict[int, list[str]] = {}
        self._secrets: dict[int, list[str]] = {}
        self._citations: list[Raw] = []

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        """See Decoder. event: the frame's name in a stream, "" for a whole answer."""
        if event.startswith(EXCEPTION):
            raise error_in_stream(self._endpoint, event.removeprefix(EXCEPTION), data)
        if event.startswith(ERROR):
            raise error_in_stream(self._endpoint, event.removeprefix(ERROR), data)
        events: list[Event] = []
        try:
            self._read(event, data, events)
        except UNREADABLE as exc:
            head = data[:80].decode(errors="replace")
            raise self._broken(f"an answer that cannot be read: {head}") from exc
        return events

    def close(self) -> Sequence[Event]:
        """See Decoder."""
        if self._failed:
            raise self._failure()
        if not self._finished:
            raise self._broken("stream ended early")
        return ()

    def _read(self, event: str, data: bytes, events: list[Event]) -> None:
        """Kinds of events that we do not know are passed over."""
        match event:
            case "contentBlockDelta":
                self._delta(wire.read_delta(data), events)
            case "contentBlockStart":
                self._start(wire.read_start(data), events)
            case "contentBlockStop":
                self._stop(wire.read_stop(data).contentBlockIndex, events)
            case "messageStart":
                self._begin(events)
            case "messageStop":
                self._end(wire.read_end(data), events)
            case "metadata":
                self._count(wire.read_metadata(data).usage, events)
            case "":
                self._whole(wire.read_whole(data), data, events)
            case _:
                pass

    def _begin(self, events: list[Event], extra: Mapping[str, Raw] | None = None) -> None:
        if not self._started:
            self._started = True
            events.append(Started(id=self._id, extra=dict(extra or {})))

    def _whole(self, answer: wire.Whole, data: bytes, events: list[Event]) -> None:
        fields = wire.read_fields(data)
        self._begin(events, {name: fields[name] for name in ABOUT if name in fields})
        for at, block in enumerate(answer.output.message.content):
            if block.toolUse is not None:
                self._call(at, block.toolUse, events)
            if block.text is not None:
                self._text(block.text, events)
            if block.reasoningContent is not None:
                thought = block.reasoningContent
                read = thought.reasoningText
                self._think(
                    at,
                    wire.ThoughtDelta(
                        text=None if read is None else read.text,
                        signature=None if read is None else read.signature,
                        redactedContent=thought.redactedContent,
                    ),
                    events,
                )
            if block.citationsContent is not None:
                for piece in block.citationsContent.content:
                    self._text(piece.text or "", events)
                self._citations += block.citationsContent.citations
            self._stop(at, events)
        self._end(answer, events)
        self._count(answer.usage, events)

    def _start(self, start: wire.Start, events: list[Event]) -> None:
        self._begin(events)
        if start.start.toolUse is not None:
            self._call(start.contentBlockIndex, start.start.toolUse, events)

    def _call(self, block: int, call: wire.ToolUse, events: list[Event]) -> None:
        """A tool that the vendor's own server runs is nothing for the client to run."""
        if call.type == wire.RUN_BY_THE_SERVER:
            check_room(self._passed_over, BLOCKS, "blocks", self._endpoint.name)
            self._passed_over.add(block)
            return
        check_room(self._tools, TOOLS, "tool calls", self._endpoint.name)
        tool = self._tools[block] = len(self._tools)
        arguments = "" if call.input == NULL else bytes(call.input).decode()
        events.append(
            ToolDelta(
                tool=tool,
                id=call.toolUseId,
                name=self._names.get(call.name, call.name),
                arguments=arguments,
            )
        )

    def _delta(self, piece: wire.Delta, events: list[Event]) -> None:
        self._begin(events)
        block, delta = piece.contentBlockIndex, piece.delta
        if delta.text is not None:
            self._text(delta.text, events)
        if delta.toolUse is not None and block not in self._passed_over:
            if block not in self._tools:
                raise self._broken("a piece of a tool call that never began")
            if delta.toolUse.input:
                tool = self._tools[block]
                events.append(ToolDelta(tool=tool, arguments=delta.toolUse.input))
        if delta.reasoningContent is not None:
            self._think(block, delta.reasoningContent, events)
        if delta.citation != NULL:
            check_room(self._citations, NOTES, "citations", self._endpoint.name)
            self._citations.append(delta.citation)

    def _text(self, text: str, events: list[Event]) -> None:
        if text:
            self._shown = True
            events.append(TextDelta(text=text))

    def _think(self, block: int, thought: wire.ThoughtDelta, events: list[Event]) -> None:
        """Proofs are kept until their block ends: they are the last that is told of it."""
        if block not in self._thoughts:
            check_room(self._thoughts, BLOCKS, "blocks", self._endpoint.name)
        number = self._thoughts.setdefault(block, len(self._thoughts))
        if thought.text:
            events.append(ReasoningDelta(text=thought.text, block=number))
        if thought.signature:
            self._proofs.setdefault(block, []).append(thought.signature)
        if thought.redactedContent:
            self._secrets.setdefault(block, []).append(thought.redactedContent)

    def _stop(self, block: int, events: list[Event]) -> None:
        proof = "".join(self._proofs.pop(block, ()))
        secret = self._joined(self._secrets.pop(block, []))
        if proof or secret:
            number = self._thoughts[block]
            events.append(
                ReasoningDelta(text="", block=number, signature=proof, data=secret, format=CLAUDE)
            )

    def _joined(self, pieces: list[str]) -> str:
        """Pieces in base64, each by itself, as one."""
        if len(pieces) < 2:
            return "".join(pieces)
        try:
            return b64encode(b"".join([b64decode(piece) for piece in pieces])).decode()
        except NotBase64 as exc:
            raise self._broken("a thought that is no base64") from exc

    def _end(self, end: wire.End, events: list[Event]) -> None:
        """A failure is kept until the counts have come: a failed answer is charged for, too."""
        self._begin(events)
        word = end.stopReason
        if word in MALFORMED:
            self._failed = word
            return
        for block in sorted({*self._proofs, *self._secrets}):
            self._stop(block, events)
        if not self._shown and not self._tools:
            events.append(TextDelta(text=""))
        if self._citations:
            events.append(OpaqueDelta(fields={"citations": Raw(_encode(self._citations))}))
        reason = FINISH.get(word, "stop")
        if reason == "stop" and self._tools:
            reason = "tool_calls"
        self._finished = True
        events.append(
            Finished(
                reason=reason,
                native="" if word == reason else word,
                stop_match=_stop_match(end.additionalModelResponseFields),
            )
        )

    def _count(self, counts: Raw, events: list[Event]) -> None:
        usage = usage_from(counts)
        if self._failed:
            raise self._failure(usage)
        events.append(usage)

    def _failure(self, usage: Usage | None = None) -> UpstreamFailed:
        word, name = self._failed, self._endpoint.name
        return UpstreamFailed(
            f"the answer ended with {word!r}", upstream=name, code=word, usage=usage
        )

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)


def usage_from(raw: Raw) -> Usage:
    """Counts that cannot be read are not known: no answer fails for them.

    `inputTokens` is without what came from the cache, or went into it.
    """
    if raw == NULL:
        return Usage()
    try:
        counts = wire.read_usage(raw)
    except UNREADABLE:
        return Usage(raw=raw)
    prompt, completion, total = counts.inputTokens, counts.outputTokens, counts.totalTokens
    cached, written = counts.cacheReadInputTokens, counts.cacheWriteInputTokens
    if prompt is not None:
        prompt += (cached or 0) + (written or 0)
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=total,
        cached_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=_hour_writes(counts.cacheDetails),
        raw=raw,
    )


def _hour_writes(details: tuple[wire.CacheDetail, ...] | None) -> int | None:
    if details is None:
        return None
    return sum(one.inputTokens for one in details if one.ttl == "1h")


def _rewritten(request: GenerateRequest) -> dict[str, str]:
    """Names that the client's functions have on the wire, where they are not their own."""
    tools = request.tools if isinstance(request, ChatRequest) else ()
    names = (tool.name for tool in tools or () if isinstance(tool, FunctionTool))
    return {tool_name(name): name for name in names if tool_name(name) != name}


def _stop_match(fields: Raw) -> str | None:
    """The stop string, which a request can ask Claude for (`/stop_sequence`)."""
    if fields == NULL:
        return None
    try:
        return wire.read_matched(fields).stop_sequence
    except UNREADABLE:
        return None
