"""A turn of the model: its text, its calls and its thoughts, as one message.

Clients keep a stream's pieces as parts, or as contents, one after the other; Google's own do, and
end with an empty text. All contents of the model in a row are one turn.
"""

import msgspec
from msgspec import Raw, UnsetType

from strowger_gateway.gateway.surfaces.decoding import is_object
from strowger_gateway.gateway.surfaces.gemini.carriers import SKIPPED, carried
from strowger_gateway.gateway.surfaces.gemini.parts import part_of
from strowger_gateway.gateway.surfaces.gemini.proto import ProtoReader
from strowger_gateway.gateway.surfaces.gemini.wire import ALLOWED, FunctionCallWire, PartWire
from strowger_gateway.gateway.surfaces.marked_objects import Marks, content_of, with_marks
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    GEMINI,
    Message,
    OpaquePart,
    Part,
    TextPart,
    Thought,
    ToolCall,
)

_CALLS = ProtoReader(FunctionCallWire, ALLOWED)


class ModelTurn:
    """Mutable state: what the turn has so far.

    calls: with an id each. marked, rewritten: see ContentsReader. blank: it has an empty text.
    """

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.marked = self.rewritten = self.blank = False
        self.marks: Marks = {}
        self._parts: list[Part] = []
        self._thoughts: list[Thought] = []
        self._shown: list[Thought] = []
        """Thoughts as parts, which a carrier behind them has as well."""
        self._thinking: list[str] = []
        """The texts of the last of them, which has no signature."""

    @property
    def is_empty(self) -> bool:
        thinks = self._thoughts or self._shown or self._thinking
        return not (self._parts or self.calls or thinks)

    def add(self, wire: PartWire, more: Marks, where: str, id: str) -> None:
        """Add a part. where: its path. id: for a call without one. Raises InvalidRequest."""
        signature = self._signature(wire.thought_signature or "")
        if wire.thought and not isinstance(wire.function_call, Raw):
            self._think(wire.text or "", signature)
            self.marks |= more
            return
        if isinstance(wire.function_call, Raw):
            self._thoughts += self._take_shown()
            self.calls.append(_call(wire.function_call, signature, where, id))
            self.marks |= more
            return
        part = part_of(wire, more, where)
        if part is None:
            field = f"{where}.functionResponse"
            raise InvalidRequest(f"{field} belongs in a content of role user", param=field)
        if signature and isinstance(part, TextPart):
            proof = Thought(signature=signature, format=GEMINI)
            self._thoughts += [*self._take_shown(), proof]
        if not isinstance(part, TextPart) or part.text:
            self._parts.append(part)
        elif not wire.thought_signature:
            self.blank = True

    def message(self) -> Message:
        marks = with_marks(self.marks)
        self.marked = marks is not msgspec.UNSET or any(map(_is_marked, self._parts))
        thoughts = (*self._thoughts, *self._take_shown())
        content: str | tuple[Part, ...] | None = None if self.calls or thoughts else ""
        if self._parts:
            content = content_of(_joined(self._parts))
        return Message(
            role="assistant",
            content=content,
            tool_calls=tuple(self.calls),
            thoughts=thoughts,
            marks=marks,
        )

    def _signature(self, sent: str) -> str:
        """Return Google's own signature, after noting what one of ours carries."""
        found = carried(sent) if sent else None
        if found is None:
            return "" if sent == SKIPPED else sent
        self.rewritten = True
        self._thoughts += found
        self._take_shown()
        return ""

    def _think(self, text: str, signature: str) -> None:
        if signature:
            self._shown = self._take_shown()
            self._shown.append(Thought(text=text, signature=signature, format=GEMINI))
        elif text:
            self._thinking.append(text)

    def _take_shown(self) -> list[Thought]:
        """Return the thoughts as parts so far, and forget them."""
        shown, texts = self._shown, self._thinking
        self._shown, self._thinking = [], []
        return [*shown, Thought(text="".join(texts))] if texts else shown


def _call(raw: Raw, signature: str, where: str, made: str) -> ToolCall:
    """made: the id of a call that has none."""
    field = f"{where}.functionCall"
    call, _ = _CALLS.read(raw, field)
    arguments = "{}"
    if isinstance(call.args, Raw):
        if not is_object(call.args):
            raise InvalidRequest(f"{field}.args must be an object", param=f"{field}.args")
        arguments = bytes(call.args).decode()
    return ToolCall(id=call.id or made, name=call.name, arguments=arguments, signature=signature)


def _is_marked(part: Part) -> bool:
    marks: Raw | UnsetType = getattr(part, "marks", msgspec.UNSET)
    return not isinstance(part, OpaquePart) and marks is not msgspec.UNSET


def _joined(parts: list[Part]) -> list[Part]:
    """Return the parts with texts in a row as one."""
    found: list[Part] = []
    texts: list[str] = []
    for part in parts:
        if isinstance(part, TextPart) and part.marks is msgspec.UNSET:
            texts.append(part.text)
            continue
        found += [TextPart(text="".join(texts))] if texts else []
        texts = []
        found.append(part)
    return [*found, TextPart(text="".join(texts))] if texts else found
