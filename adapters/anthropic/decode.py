"""Decodes answers of Anthropic's Messages API to events, streamed or complete.

A complete answer passes through the same states as a stream. Only `message_stop` ends an answer,
and unknown events are ignored. If an answer contains more than OpenAI's fields can express (the
vendor's own tools, citations, thinking between calls), all of its blocks are also returned
unchanged, once, under `content_blocks`.
https://docs.anthropic.com/en/docs/build-with-claude/streaming
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from strowger_gateway.adapters.anthropic.block_stream import RANKS, OpenBlock
from strowger_gateway.adapters.anthropic.errors import error_inside
from strowger_gateway.adapters.anthropic.messages import CONTENT_BLOCKS
from strowger_gateway.adapters.anthropic.wire import (
    DELTAS,
    BlockDelta,
    ContentBlock,
    Event,
    MessageHead,
    about,
    other_delta,
    read_block,
    read_details,
    read_event,
    read_kind,
    read_message,
    usage_of,
    with_usage,
)
from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.decoder_limits import BLOCKS, NOTES, overfull
from strowger_gateway.adapters.errors import unreadable
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.web_search.answers import citations_of_blocks, searches_of_blocks
from strowger_gateway.schemas import events as ours
from strowger_gateway.schemas.errors import GatewayError, UpstreamBroken
from strowger_gateway.schemas.events import FinishReason
from strowger_gateway.schemas.searches import citations_field, searches_field

FINISH: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""`stop_reason` -> ours; any other is a `stop` with its native reason."""

EVENTS = frozenset(
    {
        "content_block_delta",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_start",
        "message_stop",
    }
)
"""Events that carry content."""

SEARCHING = frozenset({"server_tool_use", "web_search_tool_result"})
"""Blocks of a search."""

_encode = msgspec.json.Encoder().encode


class AnthropicDecoder:
    """Decodes one answer. stream: whether a stream was requested.

    json_tool: the tool whose arguments are the answer's text (adapters/anthropic/json_object.py),
    or "". native: the client speaks this API, so blocks that our events do not have are passed on.
    """

    def __init__(
        self, endpoint: Endpoint, *, stream: bool, json_tool: str = "", native: bool = False
    ) -> None:
        self._endpoint = endpoint
        self._json_tool = json_tool
        self._stream = stream
        self._native = native
        self._started = False
        self._shown = False
        self.ended = False
        self._reason: str | None = None
        self._match: str | None = None
        self._usage: dict[str, Raw] = {}
        self._fields: dict[str, Raw] = {}
        self._blocks: dict[int, OpenBlock] = {}
        self._tools = 0
        self._thoughts = 0

    def feed(self, event: str, data: bytes) -> Sequence[ours.Event]:
        if self.ended:
            return ()
        return self._event(event, data) if self._stream else self._whole(data)

    def close(self) -> Sequence[ours.Event]:
        if not self.ended:
            raise self._broken("stream ended early")
        return ()

    def error_inside(self, data: bytes) -> GatewayError:
        """Return the error for a failure inside a 200; clouds around the API have their own."""
        return error_inside(self._endpoint, data)

    def _whole(self, data: bytes) -> Sequence[ours.Event]:
        try:
            message = read_message(data)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, data) from exc
        if message.error != NULL:
            raise self.error_inside(data)
        if message.content is None:
            raise unreadable(self._endpoint, data)
        found = self._start(message)
        for index, raw in enumerate(message.content):
            found += self._open(index, raw)
            found += self._close(self._blocks[index])
        end = BlockDelta(stop_reason=message.stop_reason, stop_sequence=message.stop_sequence)
        self._note(end, NULL)
        self._store_fields(data)
        return [*found, *self._end()]

    def _event(self, name: str, data: bytes) -> Sequence[ours.Event]:
        event = self._read(data)
        if name == "error" or event.type == "error" or event.error != NULL:
            raise self.error_inside(data)
        match event.type:
            case "content_block_delta":
                return self._piece(event, data)
            case "content_block_start":
                return self._open(event.index, event.content_block)
            case "content_block_stop":
                return self._close(self._opened(event.index))
            case "message_start":
                self._store_fields(data)
                return self._start(event.message or MessageHead())
            case "message_delta":
                self._store_fields(data)
                self._note(event.delta, event.usage)
                return ()
            case "message_stop":
                return self._end()
            case _:
                return ()

    def _read(self, data: bytes) -> Event:
        """Read an event; of an unknown one only the type."""
        try:
            return read_event(data)
        except UNREADABLE as exc:
            try:
                kind = read_kind(data)
            except UNREADABLE:
                raise unreadable(self._endpoint, data) from exc
            if kind.type in EVENTS:
                raise unreadable(self._endpoint, data) from exc
            return Event(type=kind.type, error=kind.error)

    def _start(self, message: MessageHead) -> list[ours.Event]:
        """Start an answer; a second start replaces the first until content was emitted."""
        if self._blocks:
            raise self._broken("a second answer started inside the first")
        self._usage = with_usage({}, message.usage)
        if self._started:
            return []
        self._started = True
        extra = {"usage": message.usage.copy()} if self._native and message.usage != NULL else {}
        return [ours.Started(id=message.id, model=message.model, extra=extra)]

    def _open(self, index: int, raw: Raw) -> list[ours.Event]:
        if index in self._blocks:
            raise self._broken(f"block {index} started twice")
        if len(self._blocks) >= BLOCKS:
            raise overfull(BLOCKS, "blocks", self._endpoint.name)
        try:
            kind = read_kind(raw).type
            block = read_block(raw) if kind in RANKS else ContentBlock(type=kind)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, raw) from exc
        answers = kind == "tool_use" and block.name == self._json_tool != ""
        opened = OpenBlock(
            block,
            raw,
            tool=self._tools,
            thought=self._thoughts,
            answers=answers,
            native=self._native,
        )
        self._blocks[index] = opened
        self._tools += opened.calls
        self._thoughts += opened.thinks
        return self._showing(opened.begin())

    def _piece(self, event: Event, data: bytes) -> list[ours.Event]:
        block = self._opened(event.index)
        if event.delta.type in DELTAS:
            return self._showing(block.add(event.delta, data))
        block.note(other_delta(data))
        return self._showing(block.passed_on(data))

    def _close(self, block: OpenBlock) -> list[ours.Event]:
        found = block.close()
        if self._native:
            return [*found, ours.NativeDelta()]
        if block.kind == "web_search_tool_result":
            blocks = [one.whole() for one in self._in_order() if one.kind in SEARCHING]
            fields = searches_field(searches_of_blocks(blocks))
            self._fields |= fields
            return [*found, ours.OpaqueDelta(fields=fields)]
        return found

    def _showing(self, found: list[ours.Event]) -> list[ours.Event]:
        """Note whether the events contain more than reasoning, which alone is not an answer."""
        self._shown = self._shown or any(not isinstance(o, ours.ReasoningDelta) for o in found)
        return found

    def _opened(self, index: int) -> OpenBlock:
        block = self._blocks.get(index)
        if block is None:
            raise self._broken(f"a delta of block {index}, which has not started")
        return block

    def _store_fields(self, data: bytes) -> None:
        """Store the event's unknown fields of the message."""
        if len(self._fields) >= NOTES:
            raise overfull(NOTES, "fields", self._endpoint.name)
        self._fields |= about(data)

    def _note(self, end: BlockDelta, usage: Raw) -> None:
        self._reason = end.stop_reason or self._reason
        self._match = end.stop_sequence if end.stop_sequence is not None else self._match
        self._usage = with_usage(self._usage, usage)

    def _end(self) -> Sequence[ours.Event]:
        word = self._reason
        if word is None or not self._started:
            raise self._broken("the answer has no stop reason")
        self.ended = True
        found = [one for block in self._blocks.values() for one in block.close()]
        reason = FINISH.get(word, "stop")
        if reason == "tool_calls" and not self._tools:
            reason = "stop"
        if reason == "content_filter" and not self._native:
            found += self._refusal()
        elif not (self._shown or self._native):
            found.append(ours.TextDelta(text=""))
        if not self._stream if self._native else self._exceeds_openai():
            blocks = [block.whole() for block in self._in_order()]
            self._fields[CONTENT_BLOCKS] = Raw(_encode(blocks))
            if not self._native:
                cited = citations_of_blocks(blocks)
                self._fields |= citations_field(cited) if cited else {}
        if self._fields:
            found.append(ours.OpaqueDelta(fields=self._fields))
        found.append(
            ours.Finished(
                reason=reason, native="" if word == reason else word, stop_match=self._match
            )
        )
        found.append(usage_of(self._usage))
        return found

    def _refusal(self) -> list[ours.Event]:
        try:
            explanation = read_details(self._fields.get("stop_details", Raw(b"{}"))).explanation
        except UNREADABLE:
            return []
        return [ours.RefusalDelta(text=explanation)] if explanation else []

    def _in_order(self) -> list[OpenBlock]:
        return [self._blocks[index] for index in sorted(self._blocks)]

    def _exceeds_openai(self) -> bool:
        """Return whether OpenAI's order (reasoning, text, calls) and fields do not suffice."""
        ranks = [block.rank for block in self._in_order()]
        return any(block.opaque for block in self._blocks.values()) or ranks != sorted(ranks)

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)
