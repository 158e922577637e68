"""Decodes answers of Converse and ConverseStream to events.

A stream's blocks are numbered across all kinds and may begin without a start event; the counts come
after the end. A complete answer has the same blocks, in sequence.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.bedrock import wire
from strowger_gateway.adapters.bedrock.content_blocks import tool_name
from strowger_gateway.adapters.bedrock.errors import error_in_stream
from strowger_gateway.adapters.bedrock.other_blocks import READ as READ_KINDS
from strowger_gateway.adapters.bedrock.other_blocks import OtherBlocks, joined_base64
from strowger_gateway.adapters.bedrock.usage import usage_from
from strowger_gateway.adapters.decoder_limits import BLOCKS, NOTES, TOOLS, overfull
from strowger_gateway.adapters.errors import unreadable
from strowger_gateway.adapters.eventstream import ERROR, EXCEPTION
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
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
from strowger_gateway.schemas.messages import CLAUDE, FunctionTool
from strowger_gateway.schemas.requests import ChatRequest, GenerateRequest

FINISH: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
"""`stopReason` -> ours; one in neither table is a `stop` with its native reason."""

MALFORMED = frozenset({"malformed_model_output", "malformed_tool_use"})
"""The model wrote unusable output."""

READ = frozenset({"metrics", "output", "p", "role", "stopReason", "usage"})
"""Fields of an answer, and of the events that start and end it, that are read or without meaning
(the padding `p`; `metrics`, AWS's own latency). All others are copied to the client's answer.
"""

_encode = msgspec.json.Encoder().encode


class ConverseDecoder:
    """Decodes one answer, complete or streamed. id: from the head, "" if it has none."""

    def __init__(self, endpoint: Endpoint, request: GenerateRequest, id: str = "") -> None:
        self._endpoint = endpoint
        self._id = id
        self._names = _rewritten(request)
        # The mutable state of one answer: its progress, and the kind of each block.
        self._started = False
        self._counted = False
        self._head = Started(id=id)
        self._finished = False
        self._failed = ""
        self._shown = False
        self._tools: dict[int, int] = {}
        self._others = OtherBlocks()
        self._thoughts: dict[int, int] = {}
        self._proofs: dict[int, list[str]] = {}
        self._secrets: dict[int, list[str]] = {}
        self._citations: list[Raw] = []

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        """See Decoder. event: the frame's name in a stream, "" for a complete answer."""
        if event.startswith(EXCEPTION):
            raise error_in_stream(self._endpoint, event.removeprefix(EXCEPTION), data)
        if event.startswith(ERROR):
            raise error_in_stream(self._endpoint, event.removeprefix(ERROR), data)
        events: list[Event] = []
        try:
            self._read(event, data, events)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, data) from exc
        return events

    def close(self) -> Sequence[Event]:
        """See Decoder."""
        if self._failed:
            raise self._failure()
        if not self._finished:
            raise self._broken("stream ended early")
        if not self._counted:
            raise self._broken("stream ended before its usage")
        return ()

    def _read(self, event: str, data: bytes, events: list[Event]) -> None:
        """Read an event; unknown kinds are ignored."""
        match event:
            case "contentBlockDelta":
                self._piece(data, events)
            case "contentBlockStart":
                self._start(wire.read_start(data), events)
            case "contentBlockStop":
                self._stop(wire.read_stop(data).contentBlockIndex, events)
            case "messageStart":
                self._begin(events)
            case "messageStop":
                self._begin(events, data)
                self._end(wire.read_end(data), events)
            case "metadata":
                self._begin(events, data)
                self._count(wire.read_metadata(data).usage, events)
            case "":
                self._whole(wire.read_whole(data), data, events)
            case _:
                pass

    def _begin(self, events: list[Event], data: bytes = b"{}") -> None:
        """Append `Started`, and again with more fields if `data` has some."""
        fields = wire.read_fields(data)
        more = {name: raw.copy() for name, raw in fields.items() if name not in READ}
        if self._started and not more:
            return
        self._started = True
        self._head = replace(self._head, extra={**self._head.extra, **more})
        events.append(self._head)

    def _whole(self, answer: wire.Whole, data: bytes, events: list[Event]) -> None:
        self._begin(events, data)
        for at, raw in enumerate(answer.output.message.content):
            block = wire.read_block(raw)
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
            self._kinds(at, wire.read_fields(raw), events)
            self._stop(at, events)
        self._end(answer, events)
        self._count(answer.usage, events)

    def _start(self, start: wire.Start, events: list[Event]) -> None:
        self._begin(events)
        self._kinds(start.contentBlockIndex, start.start, events)

    def _kinds(self, block: int, fields: Mapping[str, Raw], events: list[Event]) -> None:
        """Start a block: calls for the client become events; other kinds are kept until the end."""
        for kind, raw in fields.items():
            if kind in READ_KINDS or raw == NULL:
                continue
            call = wire.read_tool_use(raw) if kind == "toolUse" else None
            if call is not None and call.type != wire.RUN_BY_THE_SERVER:
                self._call(block, call, events)
                continue
            if len(self._others) >= NOTES:
                raise overfull(NOTES, "pieces of blocks", self._endpoint.name)
            self._others.add(block, kind, raw)

    def _call(self, block: int, call: wire.ToolUse, events: list[Event]) -> None:
        if len(self._tools) >= TOOLS:
            raise overfull(TOOLS, "tool calls", self._endpoint.name)
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

    def _piece(self, data: bytes, events: list[Event]) -> None:
        self._begin(events)
        try:
            piece = wire.read_delta(data)
        except msgspec.ValidationError:
            other = wire.read_other_delta(data)
            if READ_KINDS.issuperset(other.delta) or "toolUse" in other.delta:
                raise
            self._kinds(other.contentBlockIndex, other.delta, events)
            return
        block, delta = piece.contentBlockIndex, piece.delta
        if delta.text is not None:
            self._text(delta.text, events)
        if delta.toolUse is not None:
            self._arguments(block, delta.toolUse.input, events)
        if delta.reasoningContent is not None:
            self._think(block, delta.reasoningContent, events)
        if delta.citation != NULL:
            if len(self._citations) >= NOTES:
                raise overfull(NOTES, "citations", self._endpoint.name)
            self._citations.append(delta.citation)

    def _arguments(self, block: int, text: str, events: list[Event]) -> None:
        if block in self._others:
            if len(self._others) >= NOTES:
                raise overfull(NOTES, "pieces of blocks", self._endpoint.name)
            self._others.add(block, "toolUse", Raw(_encode({"input": text})))
        elif block not in self._tools:
            raise self._broken("a delta of a tool call that never started")
        elif text:
            events.append(ToolDelta(tool=self._tools[block], arguments=text))

    def _text(self, text: str, events: list[Event]) -> None:
        if text:
            self._shown = True
            events.append(TextDelta(text=text))

    def _think(self, block: int, thought: wire.ThoughtDelta, events: list[Event]) -> None:
        """Add reasoning; a proof is held until its block ends, because it must come last."""
        if block not in self._thoughts and len(self._thoughts) >= BLOCKS:
            raise overfull(BLOCKS, "blocks", self._endpoint.name)
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
        joined = joined_base64(pieces)
        if pieces and not joined:
            raise self._broken("a reasoning block is not base64")
        return joined

    def _end(self, end: wire.End, events: list[Event]) -> None:
        """End the answer; a failure is held until the counts, because it is charged for as well."""
        word = end.stopReason
        if word in MALFORMED:
            self._failed = word
            return
        for block in sorted({*self._proofs, *self._secrets}):
            self._stop(block, events)
        if not self._shown and not self._tools:
            events.append(TextDelta(text=""))
        fields = self._others.fields()
        if self._citations:
            fields["citations"] = Raw(_encode(self._citations))
        if fields:
            events.append(OpaqueDelta(fields=fields))
        reason = FINISH.get(word, "stop")
        if reason in ("stop", "tool_calls"):  # whichever it says: some call, some only say so
            reason = "tool_calls" if self._tools else "stop"
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
        self._counted = True
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


def _rewritten(request: GenerateRequest) -> dict[str, str]:
    """Return the functions whose name on the wire differs, by that name."""
    tools = request.tools if isinstance(request, ChatRequest) else ()
    names = (tool.name for tool in tools or () if isinstance(tool, FunctionTool))
    return {tool_name(name): name for name in names if tool_name(name) != name}


def _stop_match(fields: Raw) -> str | None:
    """Return the stop string, which requests can ask Claude for (`/stop_sequence`)."""
    if fields == NULL:
        return None
    try:
        return wire.read_matched(fields).stop_sequence
    except UNREADABLE:
        return None
