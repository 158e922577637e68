"""Turn `systemInstruction` and `contents` into our messages.

One turn can become several messages: each function's result is a message of its own, in its place.
The model's contents in a row are one message (`model_turn.py`). Calls may have no ids: one
without gets an id from its place, and a result without belongs to the first open call of its name.
https://ai.google.dev/api/caching#Content
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from strowger_gateway.gateway.surfaces.decoding import UNREADABLE, invalid_request, is_object
from strowger_gateway.gateway.surfaces.gemini.model_turn import ModelTurn
from strowger_gateway.gateway.surfaces.gemini.parts import part_of, read_parts
from strowger_gateway.gateway.surfaces.gemini.proto import ProtoReader, as_list, object_fields
from strowger_gateway.gateway.surfaces.gemini.wire import (
    ALLOWED,
    ContentWire,
    FunctionResponseWire,
    PartWire,
)
from strowger_gateway.gateway.surfaces.marked_objects import Marks, content_of, with_marks
from strowger_gateway.gateway.surfaces.open_calls import OpenCalls
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    Message,
    OpaquePart,
    Part,
    TextPart,
)

MAX_CONTENTS: Final = 100_000

_BLANK: Final = {"text": Raw(b'""')}
_MODEL: Final = Raw(b'"model"')

_ROLES: Final[Mapping[str, str]] = {
    "": "user",
    "user": "user",
    "function": "user",
    "tool": "user",
    "model": "model",
    "assistant": "model",
    "system": "system",
}
_OWN_ROLES: Final = frozenset({"", "user", "model", "function"})
"""Those that Google accepts; the others are what clients of other APIs write."""

_ONLY: Final = (("output",), ("result",))
"""Members of results of a single text, as Google's own clients write them."""

_CONTENTS: Final = ProtoReader(ContentWire, ALLOWED, lists={"parts"})
_RESULTS: Final = ProtoReader(FunctionResponseWire, ALLOWED, lists={"parts"})
_raws: Final = msgspec.json.Decoder(list[Raw])
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_text: Final = msgspec.json.Decoder(str)


class ContentsReader:
    """The messages of one request.

    marked: some have fields that our schema does not have. rewritten: the client's JSON has what
    Google does not read: reasoning of other vendors, or roles of other APIs. untidy: the model has
    several contents in a row, or an empty text, which Google refuses: see `tidied`.
    """

    def __init__(self, system: Raw | UnsetType, contents: Raw | UnsetType, fewest: int) -> None:
        """Raises InvalidRequest, whose `param` is the path of the invalid field."""
        self.marked = self.rewritten = self.untidy = False
        self.messages: list[Message] = []
        self._open = OpenCalls()
        self._turn: ModelTurn | None = None
        if isinstance(system, Raw):
            self._add_system(system, "systemInstruction")
        if not isinstance(contents, Raw):
            if fewest:
                raise InvalidRequest("contents is required", param="contents")
            return
        try:
            raws = _raws.decode(as_list(contents))
        except UNREADABLE as exc:
            raise invalid_request(exc, "contents", ALLOWED) from exc
        if not fewest <= len(raws) <= MAX_CONTENTS:
            told = f"contents must have 1 to {MAX_CONTENTS} entries"
            raise InvalidRequest(told, param="contents")
        for at, raw in enumerate(raws):
            self._add(raw, at)
        self._end_turn()

    def _add(self, raw: Raw, at: int) -> None:
        where = f"contents[{at}]"
        content, more = self._content(raw, where)
        sent = (content.role or "").lower()
        role = _ROLES.get(sent)
        if role is None:
            raise InvalidRequest(f"{where}.role must be user or model", param=f"{where}.role")
        self.rewritten = self.rewritten or sent not in _OWN_ROLES
        parts = read_parts(content.parts, f"{where}.parts")
        if role == "model":
            self.untidy = self.untidy or self._turn is not None
            self._turn = self._turn or ModelTurn()
            self._turn.marks |= more
            for place, (wire, others) in enumerate(parts):
                path = f"{where}.parts[{place}]"
                self._turn.add(wire, others, path, f"call_{at}_{place}")
            return
        self._end_turn()
        if role == "system":
            self._add_system(raw, where)
            return
        before = len(self.messages)
        self._add_user(parts, at)
        if more:
            self.marked = True
            first = self.messages[before]
            self.messages[before] = msgspec.structs.replace(first, marks=with_marks(more))

    def _end_turn(self) -> None:
        """Add the model's turn; one that says nothing is not a message, if there are others."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        self.untidy = self.untidy or turn.blank
        if turn.is_empty and self.messages:
            self.untidy = True
            return
        self.messages.append(turn.message())
        self.marked = self.marked or turn.marked
        self.rewritten = self.rewritten or turn.rewritten
        if turn.calls:
            self._open.next_turn()
        for one in turn.calls:
            self._open.add(one.id, one.name)

    def _add_system(self, raw: Raw, where: str) -> None:
        content, _ = self._content(raw, where)
        parts: list[Part] = []
        for at, (wire, more) in enumerate(read_parts(content.parts, f"{where}.parts")):
            path = f"{where}.parts[{at}]"
            part = part_of(wire, more, path)
            if not isinstance(part, TextPart):
                raise InvalidRequest(f"{path} must be a text", param=path)
            if part.text:
                parts.append(self._noted(part))
        if parts:
            self.messages.append(Message(role="system", content=content_of(parts)))

    def _add_user(self, wires: list[tuple[PartWire, Marks]], at: int) -> None:
        """Add content, and each function's result as a message of its own."""
        parts: list[Part] = []
        before = len(self.messages)
        for place, (wire, more) in enumerate(wires):
            path = f"contents[{at}].parts[{place}]"
            if isinstance(wire.function_response, Raw):
                if parts:
                    self.messages.append(Message(role="user", content=content_of(parts)))
                    parts = []
                self._add_result(wire.function_response, more, path, f"{at}_{place}")
                continue
            part = part_of(wire, more, path)
            if part is None:
                field = f"{path}.functionCall"
                told = f"{field} belongs in a content of role model"
                raise InvalidRequest(told, param=field)
            parts.append(self._noted(part))
        if parts or len(self.messages) == before:
            self.messages.append(Message(role="user", content=content_of(parts) if parts else ""))

    def _add_result(self, raw: Raw, more: Marks, where: str, place: str) -> None:
        field = f"{where}.functionResponse"
        found, others = _RESULTS.read(raw, field)
        text = _result_text(found.response, f"{field}.response")
        parts: list[Part] = []
        for at, (wire, inner) in enumerate(read_parts(found.parts, f"{field}.parts")):
            path = f"{field}.parts[{at}]"
            part = part_of(wire, inner, path)
            if part is None:
                raise InvalidRequest(f"{path} must be media", param=path)
            parts.append(self._noted(part))
        marks = with_marks(more | others)
        self.marked = self.marked or marks is not msgspec.UNSET
        self.messages.append(
            Message(
                role="tool",
                tool_call_id=self._answered(found.id or "", found.name or "", place),
                content=(TextPart(text=text), *parts) if parts else text,
                marks=marks,
            )
        )

    def _answered(self, id: str, name: str, place: str) -> str:
        """Return the id of the call that a result is of, which is open no longer."""
        found = self._open.of_id(id) if id else None
        if found is None:
            found = self._open.of_name(name)
        return (id or f"result_{place}") if found is None else found

    def _content(self, raw: Raw, where: str) -> tuple[ContentWire, Marks]:
        """Return a turn; of a text or a list of parts, as Google's SDKs take them, too."""
        if bytes(memoryview(raw)[:1]) in b'"[':
            self.rewritten = True
            return ContentWire(parts=raw), {}
        return _CONTENTS.read(raw, where)

    def _noted(self, part: Part) -> Part:
        if not self.marked and not isinstance(part, OpaquePart):
            self.marked = getattr(part, "marks", msgspec.UNSET) is not msgspec.UNSET
        return part


def tidied(contents: Raw) -> Raw:
    """Return the client's contents with the model's in a row as one, and without empty texts."""
    made: list[Marks] = []
    for raw in _raws.decode(as_list(contents)):
        fields = object_fields(raw, "contents")
        if fields.get("role") != _MODEL:
            made.append(fields)
            continue
        parts = _raws.decode(as_list(fields.get("parts", Raw(b"[]"))))
        kept = [one for one in parts if object_fields(one, "contents") != _BLANK]
        if made and made[-1].get("role") == _MODEL:
            kept = [*_raws.decode(made.pop()["parts"]), *kept]
        if kept or not made:
            made.append({**fields, "parts": Raw(encode(kept or parts))})
    return Raw(encode(made))


def _result_text(raw: Raw | UnsetType, where: str) -> str:
    """Return a result as text: its only text, or its JSON."""
    if not isinstance(raw, Raw):
        return ""
    if not is_object(raw):
        raise InvalidRequest(f"{where} must be an object", param=where)
    try:
        fields = _fields.decode(raw)
    except UNREADABLE as exc:
        raise invalid_request(exc, where, ALLOWED) from exc
    if tuple(fields) in _ONLY:
        (value,) = fields.values()
        if bytes(memoryview(value)[:1]) == b'"':
            return _text.decode(value)
    return bytes(raw).decode()
