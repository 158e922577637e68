"""Write output items as events: each begins, grows and ends, in the order of its first piece.

Messages and reasoning follow one another. Calls may grow in turns, because a backend may send their
arguments so; a call ends when the next item begins, if its arguments are complete, and otherwise
with the answer.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses import items, web_searches
from strowger_gateway.gateway.surfaces.responses.carriers import REASONING, Carriers
from strowger_gateway.gateway.surfaces.responses.encrypted_content import sealed, sealed_call
from strowger_gateway.gateway.surfaces.responses.frames import (
    DELTA_END,
    TEXT_END,
    delta_start,
    event,
)
from strowger_gateway.gateway.surfaces.responses.items import COMPLETED, IN_PROGRESS
from strowger_gateway.gateway.surfaces.responses.namespaces import OwnTool
from strowger_gateway.schemas.events import ReasoningDelta, TokenLogprob, ToolDelta
from strowger_gateway.schemas.measured_json import JsonPieces
from strowger_gateway.schemas.searches import Cited, Search, citations_field, whole_searches_of

_TEXT: Final = b"output_text"
_REFUSAL: Final = b"refusal"


class _OpenPart:
    """A part of the open message. before: the bytes of its deltas before the text."""

    def __init__(self, kind: bytes, place: bytes) -> None:
        self.kind = kind
        self.place = place
        self.pieces = JsonPieces()
        self.logprobs: list[TokenLogprob] = []
        self.cited: list[bytes] = []
        self.before = delta_start(b"response.%b.delta" % kind, place)


class _OpenMessage:
    def __init__(self, id: bytes, index: int) -> None:
        self.id, self.index = id, index
        self.ended: list[bytes] = []
        self.part: _OpenPart | None = None


class _OpenThought:
    def __init__(self, id: bytes, index: int, block: int) -> None:
        self.id, self.index, self.block = id, index, block
        self.before = self.place = b""
        self.pieces = JsonPieces()
        self.signature = ""
        self.data = ""
        self.format = ""


class _OpenCall:
    def __init__(self, id: bytes, index: int, first: ToolDelta, tool: OwnTool) -> None:
        self.id, self.index = id, index
        self.call_id = first.id
        self.tool = tool
        self.custom = tool.custom
        self.place = b'"item_id":"%b","output_index":%d' % (id, index)
        self.before = delta_start(b"response.function_call_arguments.delta", self.place)
        self.pieces = JsonPieces()


class ItemWriter:
    """Mutable state: the open items, what has ended, and the number of the next event.

    number: of the next event. Each method that writes appends frames to `out`.
    """

    def __init__(
        self,
        id: str,
        *,
        own: Mapping[str, OwnTool],
        summarised: bool,
        carriers: Carriers | None = None,
    ) -> None:
        """id: of the answer. own: see own_tools. summarised: see items.reasoning.

        carriers: make items that carry others; `None`: there are none.
        """
        self.number = 0
        self._carriers = carriers
        self._id = id.encode()
        self._own = own
        self._summarised = summarised
        self._ended: list[bytes | None] = []
        self._message: _OpenMessage | None = None
        self._part: _OpenPart | None = None
        self._thought: _OpenThought | None = None
        self._calls: dict[int, _OpenCall] = {}
        self._called: set[int] = set()
        self._searches = 0
        self._cited: list[Cited] = []
        self._told = 0

    def emit(self, kind: bytes, members: bytes, out: list[bytes]) -> None:
        out.append(event(kind, members, self.number))
        self.number += 1

    def text(self, text: str, logprobs: Sequence[TokenLogprob], out: list[bytes]) -> None:
        part = self._part
        if part is not None and part.kind is _TEXT and text and not logprobs:
            part.pieces.append(text)
            out += (part.before, encode(text), TEXT_END % self.number)
            self.number += 1
        elif text or logprobs:
            self._grow(_TEXT, text, logprobs, out)

    def refusal(self, text: str, out: list[bytes]) -> None:
        if text:
            self._grow(_REFUSAL, text, (), out)

    def thought(self, delta: ReasoningDelta, out: list[bytes]) -> None:
        thought = self._thought
        if thought is None or thought.block != delta.block:
            self._end_all(out)
            thought = self._begin_thought(delta.block, out)
        if delta.text:
            if not thought.pieces:
                self._begin_thinking(thought, out)
            thought.pieces.append(delta.text)
            out += (thought.before, encode(delta.text), DELTA_END % self.number)
            self.number += 1
        thought.signature += delta.signature
        thought.data += delta.data
        thought.format = delta.format or thought.format

    def tool(self, delta: ToolDelta, out: list[bytes]) -> None:
        call = self._calls.get(delta.tool)
        if call is None:
            if delta.tool in self._called:
                return  # what follows a complete object is at most white space
            self._end_all(out)
            call = self._begin_call(delta, out)
        if not delta.arguments:
            return
        call.pieces.append(delta.arguments)
        if not call.custom:
            out += (call.before, encode(delta.arguments), DELTA_END % self.number)
            self.number += 1

    def lead(self, item: bytes, out: list[bytes]) -> None:
        """Write a compaction item, which is complete, before all others."""
        self._ended.append(item)
        self._added(len(self._ended) - 1, item, out)
        self._done(len(self._ended) - 1, item, out, "compaction")

    def searched(self, found: Sequence[Search], out: list[bytes]) -> None:
        """Write the web searches that are not written yet. found: all so far, which have ended."""
        for search in found[self._searches :]:
            self._searches += 1
            self._search(search, out)

    def _search(self, search: Search, out: list[bytes]) -> None:
        self._end_all(out)
        id, index = self._next(web_searches.KIND)
        write = web_searches.search_call(search)
        self._added(index, write(id, IN_PROGRESS), out)
        for step in web_searches.STEPS:
            place = b'"item_id":"%b","output_index":%d' % (id, index)
            self.emit(b"response.web_search_call.%b" % step, place, out)
        self._done(index, write(id, COMPLETED), out, "web_search_call")

    def cite(self, cited: Sequence[Cited], out: list[bytes]) -> None:
        """Add citations to the open text; a text that has ended keeps none."""
        self._cited += cited
        part = self._part
        if part is None or part.kind is not _TEXT:
            return
        for one in web_searches.citations(web_searches.from_here(cited, self._told)):
            members = b'%b,"annotation_index":%d,"annotation":%b' % (
                part.place,
                len(part.cited),
                one,
            )
            self.emit(b"response.output_text.annotation.added", members, out)
            part.cited.append(one)

    def finish(self, out: list[bytes], status: bytes) -> bytes:
        """End all open items, the last with this status. Return all items as a JSON list."""
        if self._cited and not self._searches:
            self.searched(whole_searches_of(citations_field(self._cited)), out)
        if not self._ended:
            self._grow(_TEXT, "", (), out)
        last = len(self._ended) - 1
        self._end_message(out, status if _index(self._message) == last else COMPLETED)
        self._end_thought(out, status if _index(self._thought) == last else COMPLETED)
        for call in list(self._calls.values()):
            self._end_call(call, out, status if call.index == last else COMPLETED)
        self._calls.clear()
        self._carry(out)
        return self.ended()

    def ended(self) -> bytes:
        """Return the items that have ended, as a JSON list."""
        return b"[%b]" % b",".join([item for item in self._ended if item is not None])

    def _grow(
        self, kind: bytes, text: str, logprobs: Sequence[TokenLogprob], out: list[bytes]
    ) -> None:
        """Add to the open part; begin the part and the message if they are not open."""
        message = self._message
        if message is None:
            self._end_all(out)
            message = self._begin_message(out)
        part = self._part
        if part is None or part.kind is not kind:
            self._end_part(message, out)
            part = self._begin_part(message, kind, out)
        if not text and not logprobs:
            return
        part.pieces.append(text)
        end = DELTA_END % self.number
        if kind is _TEXT:
            part.logprobs += logprobs
            end = b',"logprobs":%b%b' % (items.logprobs_json(logprobs), end)
        out += (part.before, encode(text), end)
        self.number += 1

    def _begin_message(self, out: list[bytes]) -> _OpenMessage:
        self._carry(out)
        id, index = self._next(b"msg")
        self._message = message = _OpenMessage(id, index)
        self._added(index, items.message(id, (), IN_PROGRESS), out)
        return message

    def _begin_part(self, message: _OpenMessage, kind: bytes, out: list[bytes]) -> _OpenPart:
        place = b'"item_id":"%b","output_index":%d,"content_index":%d' % (
            message.id,
            message.index,
            len(message.ended),
        )
        self._part = part = _OpenPart(kind, place)
        empty = items.text_part(b'""') if kind is _TEXT else items.refusal_part(b'""')
        self.emit(b"response.content_part.added", b'%b,"part":%b' % (place, empty), out)
        return part

    def _end_part(self, message: _OpenMessage, out: list[bytes]) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        written = "".join(part.pieces)
        text = encode(written)
        if part.kind is _TEXT:
            self._told += len(written)
            logprobs = items.logprobs_json(part.logprobs)
            whole = items.text_part(text, logprobs, part.cited)
            members = b'%b,"text":%b,"logprobs":%b' % (part.place, text, logprobs)
        else:
            whole = items.refusal_part(text)
            members = b'%b,"refusal":%b' % (part.place, text)
        self.emit(b"response.%b.done" % part.kind, members, out)
        self.emit(b"response.content_part.done", b'%b,"part":%b' % (part.place, whole), out)
        message.ended.append(whole)

    def _end_message(self, out: list[bytes], status: bytes = COMPLETED) -> None:
        message = self._message
        if message is not None:
            self._end_part(message, out)
            self._message = None
            item = items.message(message.id, message.ended, status)
            self._done(message.index, item, out, "message")

    def _begin_thought(self, block: int, out: list[bytes]) -> _OpenThought:
        id, index = self._next(b"rs")
        self._thought = thought = _OpenThought(id, index, block)
        empty = items.reasoning(id, "", "", summarised=self._summarised, status=IN_PROGRESS)
        self._added(index, empty, out)
        return thought

    def _begin_thinking(self, thought: _OpenThought, out: list[bytes]) -> None:
        kind, within = (b"reasoning_summary", b"summary") if self._summarised else _CONTENT
        place = b'"item_id":"%b","output_index":%d,"%b_index":0' % (
            thought.id,
            thought.index,
            within,
        )
        thought.place = place
        thought.before = delta_start(b"response.%b_text.delta" % kind, place)
        part = items.thinking_part(b'""', summarised=self._summarised)
        self.emit(b"response.%b_part.added" % self._parts(), b'%b,"part":%b' % (place, part), out)

    def _end_thought(self, out: list[bytes], status: bytes = COMPLETED) -> None:
        thought, self._thought = self._thought, None
        if thought is None:
            return
        text = "".join(thought.pieces)
        if thought.pieces:
            kind = b"reasoning_summary" if self._summarised else b"reasoning"
            whole = encode(text)
            part = items.thinking_part(whole, summarised=self._summarised)
            self.emit(
                b"response.%b_text.done" % kind, b'%b,"text":%b' % (thought.place, whole), out
            )
            self.emit(
                b"response.%b_part.done" % self._parts(),
                b'%b,"part":%b' % (thought.place, part),
                out,
            )
        encrypted = sealed(text, thought.signature, thought.data, thought.format)
        item = items.reasoning(
            thought.id, text, encrypted, summarised=self._summarised, status=status
        )
        self._done(thought.index, item, out, REASONING)

    def _parts(self) -> bytes:
        return b"reasoning_summary" if self._summarised else b"content"

    def _begin_call(self, first: ToolDelta, out: list[bytes]) -> _OpenCall:
        if first.signature:
            self._sign(first, out)
        self._carry(out)
        tool = self._own.get(first.name) or OwnTool(name=first.name)
        id, index = self._next(b"ctc" if tool.custom else b"fc")
        call = self._calls[first.tool] = _OpenCall(id, index, first, tool)
        self._called.add(first.tool)
        write = items.custom_call if tool.custom else items.function_call
        self._added(index, write(id, first.id, tool, b'""', IN_PROGRESS), out)
        return call

    def _sign(self, first: ToolDelta, out: list[bytes]) -> None:
        """Write Gemini's signature of a call as reasoning, which clients return."""
        id, index = self._next(b"rs")
        empty = items.reasoning(id, "", "", summarised=True, status=IN_PROGRESS)
        self._added(index, empty, out)
        encrypted = sealed_call(first.signature, first.id)
        item = items.reasoning(id, "", encrypted, summarised=True, status=COMPLETED)
        self._done(index, item, out, REASONING)

    def _end_call(self, call: _OpenCall, out: list[bytes], status: bytes = COMPLETED) -> None:
        arguments = "".join(call.pieces)
        if call.custom:
            given = encode(items.custom_input(arguments)) if arguments else b'""'
            delta = b'%b,"delta":%b' % (call.place, given)
            self.emit(b"response.custom_tool_call_input.delta", delta, out)
            kind, member, write = b"custom_tool_call_input", b"input", items.custom_call
        else:
            if not arguments:
                arguments = "{}"
                out += (call.before, b'"{}"', DELTA_END % self.number)
                self.number += 1
            given = encode(arguments)
            kind, member, write = b"function_call_arguments", b"arguments", items.function_call
        done = b'%b,"%b":%b' % (call.place, member, given)
        self.emit(b"response.%b.done" % kind, done, out)
        item = write(call.id, call.call_id, call.tool, given, status)
        self._done(call.index, item, out, "custom_tool_call" if call.custom else "function_call")

    def _end_all(self, out: list[bytes]) -> None:
        """End what the next item ends: everything but calls whose arguments are incomplete."""
        self._end_message(out)
        self._end_thought(out)
        for tool, call in list(self._calls.items()):
            if call.pieces.kind() == "{":
                del self._calls[tool]
                self._end_call(call, out)

    def _next(self, kind: bytes) -> tuple[bytes, int]:
        """Return the id and the index of a new item."""
        index = len(self._ended)
        self._ended.append(None)
        return b"%b_%b_%d" % (kind, self._id, index), index

    def _added(self, index: int, item: bytes, out: list[bytes]) -> None:
        members = b'"output_index":%d,"item":%b' % (index, item)
        self.emit(b"response.output_item.added", members, out)

    def _done(self, index: int, item: bytes, out: list[bytes], kind: str) -> None:
        """kind: the item's type."""
        self._ended[index] = item
        self.emit(b"response.output_item.done", b'"output_index":%d,"item":%b' % (index, item), out)
        if self._carriers is not None:
            self._carriers.note(item, kind)

    def _carry(self, out: list[bytes]) -> None:
        """Write the item that carries those which have ended."""
        found = None if self._carriers is None else self._carriers.item()
        if found is None:
            return
        index = len(self._ended)
        self._ended.append(found[1])
        self._added(index, found[0], out)
        members = b'"output_index":%d,"item":%b' % (index, found[1])
        self.emit(b"response.output_item.done", members, out)


def _index(one: _OpenMessage | _OpenThought | None) -> int:
    return -1 if one is None else one.index


_CONTENT: Final = (b"reasoning", b"content")
