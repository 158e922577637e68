"""Write a Messages stream: its frames, and content blocks one after the other.

One event per frame, with its type as the event's name. JSON that is given to a frame is without
line breaks, which would end it: `one_line` removes a backend's own.
https://docs.anthropic.com/en/docs/build-with-claude/streaming

Clients expect each block to end before the next begins, but a backend may send the arguments of
several calls in turns. What arrives for another block while a call's arguments are incomplete is
held back until the call is complete, or the answer is.
"""

from collections.abc import Sequence
from typing import Final

from strowger_gateway.gateway.surfaces.anthropic import proofs
from strowger_gateway.gateway.surfaces.anthropic.web_searches import (
    SearchBlocks,
    citations,
)
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.sse import one_line
from strowger_gateway.schemas.events import NativeDelta, ReasoningDelta, ToolDelta
from strowger_gateway.schemas.measured_json import JsonPieces
from strowger_gateway.schemas.searches import Cited

STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

_TEXT_END: Final = b"}}\n\n"
"""Ends a frame that `_delta_start` begins."""

_Key = tuple[str, int]
_Held = ReasoningDelta | ToolDelta | NativeDelta | SearchBlocks | str

_TEXT: Final[_Key] = ("text", 0)
_NATIVE: Final[_Key] = ("native", 0)
_NONE: Final[_Key] = ("", 0)

_EMPTY_TEXT: Final = b'{"type":"text","text":""}'
_EMPTY_THOUGHT: Final = b'{"type":"thinking","thinking":"","signature":""}'


class BlockWriter:
    """Mutable state: the open block, its number, and what is held back.

    calls: tools that were called. Each method appends frames to `out`.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._index = -1
        self._open = _NONE
        self._before = b""
        self._signable = False
        self._arguments = JsonPieces()
        self._held: list[_Held] = []
        self._ended: set[int] = set()

    def text(self, text: str, out: list[bytes]) -> None:
        if self._open is _TEXT:
            if text:
                out += (self._before, encode(text), _TEXT_END)
        elif self._must_wait():
            self._held.append(text)
        else:
            self._begin(_TEXT, _EMPTY_TEXT, out)
            self._before = _delta_start(self._index, b"text_delta", b"text")
            self.text(text, out)

    def thought(self, event: ReasoningDelta, out: list[bytes]) -> None:
        key = ("thinking", event.block)
        if self._open != key:
            if self._must_wait():
                self._held.append(event)
                return
            if event.data:
                data = encode(proofs.written(event.data, event.format))
                self._begin(key, b'{"type":"redacted_thinking","data":%b}' % data, out)
                return
            self._begin(key, _EMPTY_THOUGHT, out)
        if event.text:
            start = _delta_start(self._index, b"thinking_delta", b"thinking")
            out += (start, encode(event.text), _TEXT_END)
            self._signable = True
        if event.signature:
            self._signable = False
            start = _delta_start(self._index, b"signature_delta", b"signature")
            proof = proofs.written(event.signature, event.format)
            out += (start, encode(proof), _TEXT_END)

    def tool(self, event: ToolDelta, out: list[bytes]) -> None:
        key = ("tool", event.tool)
        if self._open != key:
            if event.tool in self._ended:
                return  # what follows a complete object is at most white space
            if self._must_wait():
                self._held.append(event)
                return
            id = self._sign_call(event, out)
            self.calls += 1
            self._begin(key, tool_use(id, event.name, b"{}"), out)
            self._before = _delta_start(self._index, b"input_json_delta", b"partial_json")
            self._arguments = JsonPieces()
        if event.arguments:
            self._arguments.append(event.arguments)
            out += (self._before, encode(event.arguments), _TEXT_END)
            self._release(out)

    def search(self, blocks: SearchBlocks, out: list[bytes]) -> None:
        """Write a search and its results; while a call is incomplete, after it."""
        if self._must_wait():
            self._held.append(blocks)
            return
        self._begin(_NATIVE, blocks.call, out)
        start = _delta_start(self._index, b"input_json_delta", b"partial_json")
        out += (start, encode(blocks.input.decode()), _TEXT_END)
        self._begin(_NATIVE, blocks.result, out)
        self._end(out)

    def cite(self, cited: Sequence[Cited], out: list[bytes]) -> None:
        """Add citations to the open text; a text that has ended keeps none."""
        if self._open is _TEXT:
            out += [_citation(self._index, one) for one in citations(cited)]

    def native(self, event: NativeDelta, out: list[bytes]) -> None:
        if event.block is not None:
            if self._must_wait():
                self._held.append(event)
                return
            self.calls += b'"tool_use"' in bytes(event.block)
            self._begin(_NATIVE, one_line(bytes(event.block)), out)
        elif event.delta is not None:
            if self._index >= 0:
                out.append(_block_delta(self._index, one_line(bytes(event.delta))))
        else:
            self._end(out)

    def finish(self, out: list[bytes]) -> None:
        """End the open block, and write what is held back, complete or not."""
        self._end(out)
        while self._held:
            self._write_held(out)
            self._end(out)

    def _must_wait(self) -> bool:
        """Whether the open block is a call whose arguments are incomplete."""
        return bool(self._held) or (self._open[0] == "tool" and not self._is_complete())

    def _is_complete(self) -> bool:
        # Without any, they may still come; if not, the answer's end completes it.
        return bool(self._arguments) and self._arguments.kind() != ""

    def _release(self, out: list[bytes]) -> None:
        if self._held and self._is_complete():
            self._end(out)
            self._write_held(out)

    def _write_held(self, out: list[bytes]) -> None:
        """Write what is held back, up to a call that is incomplete with all its pieces."""
        held, self._held = self._held, []
        for place, event in enumerate(held):
            if isinstance(event, ToolDelta) and self._open != ("tool", event.tool):
                # The pieces of one call belong together, wherever they are in the queue.
                others: list[_Held] = []
                for one in held[place:]:
                    if isinstance(one, ToolDelta) and one.tool == event.tool:
                        self.tool(one, out)
                    else:
                        others.append(one)
                self._held = others
                if others and self._is_complete():
                    self._end(out)
                    self._write_held(out)
                return
            self._write(event, out)

    def _write(self, event: _Held, out: list[bytes]) -> None:
        match event:
            case str():
                self.text(event, out)
            case ReasoningDelta():
                self.thought(event, out)
            case ToolDelta():
                self.tool(event, out)
            case NativeDelta():
                self.native(event, out)
            case SearchBlocks():
                self.search(event, out)

    def _sign_call(self, event: ToolDelta, out: list[bytes]) -> str:
        """Write Gemini's signature of a call where clients return it. Return the call's id."""
        unsigned = proofs.unsigned_id(event.id)
        if not event.signature:
            return unsigned
        signature = encode(proofs.written_for_call(event.signature, event.id))
        if self._open[0] != "thinking" or not self._signable:
            id = proofs.signed_id(event.id, event.signature)
            if id:
                return id
            self._begin(_NATIVE, _EMPTY_THOUGHT, out)
        out += (_delta_start(self._index, b"signature_delta", b"signature"), signature, _TEXT_END)
        return unsigned

    def _begin(self, key: _Key, block: bytes, out: list[bytes]) -> None:
        self._end(out)
        self._index += 1
        self._open = key
        self._signable = False
        out.append(_block_start(self._index, block))

    def _end(self, out: list[bytes]) -> None:
        if self._open is _NONE:
            return
        if self._open[0] == "tool":
            self._ended.add(self._open[1])
            if not self._arguments:
                out += (self._before, b'"{}"', _TEXT_END)
        self._open = _NONE
        out.append(_block_stop(self._index))


def tool_use(id: str, name: str, input: bytes) -> bytes:
    return b'{"type":"tool_use","id":%b,"name":%b,"input":%b}' % (encode(id), encode(name), input)


def message_start(message: bytes) -> bytes:
    """message: the answer's head, without content."""
    return b'event: message_start\ndata: {"type":"message_start","message":%b}\n\n' % message


def message_delta(delta: bytes, more: bytes, usage: bytes) -> bytes:
    """more: members next to `delta`, each after a comma."""
    return b'event: message_delta\ndata: {"type":"message_delta","delta":%b%b,"usage":%b}\n\n' % (
        delta,
        more,
        usage,
    )


def _block_start(index: int, block: bytes) -> bytes:
    return (
        b"event: content_block_start\n"
        b'data: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
    ) % (index, block)


def _block_delta(index: int, delta: bytes) -> bytes:
    return (
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":%d,"delta":%b}\n\n'
    ) % (index, delta)


def _delta_start(index: int, kind: bytes, field: bytes) -> bytes:
    """Return the bytes of a delta before its text, which `_TEXT_END` ends."""
    return (
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
    ) % (index, kind, field)


def _block_stop(index: int) -> bytes:
    return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % index


def _citation(index: int, citation: bytes) -> bytes:
    """Return the event that adds a citation to the open text block of this index."""
    return _block_delta(index, b'{"type":"citations_delta","citation":%b}' % citation)
