"""Encodes a conversation as the items of `input`.

One of our messages becomes several items: reasoning, text and items of the server's own tools, then
calls. https://platform.openai.com/docs/api-reference/responses/create#responses-create-input
"""

from collections.abc import Collection, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.adapters.json_objects import UNREADABLE
from strowger_gateway.adapters.openai_responses.row import ResponsesRow
from strowger_gateway.adapters.openai_responses.wire import DIALECT, opened
from strowger_gateway.adapters.unnamed_messages import check_unnamed
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    Thought,
    provable_thoughts,
)

Item = dict[str, object]

CUSTOM_INPUT = "input"
"""The argument of a function that stands for a custom tool (docs/adr/0027)."""


class _File(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """file_data: a `data:` URI. file_url: an https address."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


class _FilePart(Struct, frozen=True, kw_only=True):
    file: _File


class _Given(Struct, frozen=True, kw_only=True):
    input: str


class _Marks(Struct, frozen=True, kw_only=True):
    phase: Raw | UnsetType = UNSET


_file = msgspec.json.Decoder(_FilePart).decode
_given = msgspec.json.Decoder(_Given).decode
_marks = msgspec.json.Decoder(_Marks).decode


class InputItems:
    """Encodes messages in order.

    custom: names of tools that take text: their calls and outputs are items of their own.
    """

    def __init__(self, row: ResponsesRow, custom: Collection[str]) -> None:
        self._row = row
        self._custom = custom
        self._custom_calls: set[str] = set()
        self.items: list[Item | Raw] = []

    def add(self, messages: Sequence[Message]) -> None:
        """Raises InvalidRequest for what the API has no item for, by its path."""
        for place, one in enumerate(messages):
            field = f"messages[{place}]"
            if one.name or one.role == "function":
                check_unnamed(one, field)
            match one.role:
                case "assistant":
                    self._add_answer(one, place, field)
                case "tool":
                    self._add_output(one, field)
                case _:
                    self._add_message(one, _content(one.content, f"{field}.content"))

    def _add_message(self, one: Message, content: object) -> None:
        item: Item = {"type": "message", "role": one.role, "content": content}
        if isinstance(one.marks, Raw):
            phase = _marks(one.marks).phase
            if phase is not UNSET:
                item["phase"] = phase
        self.items.append(item)

    def _add_answer(self, one: Message, place: int, field: str) -> None:
        thoughts = provable_thoughts(one, self._row.proofs)
        for at, thought in enumerate(thoughts):
            item = self._reasoning(thought, f"rs_{place}_{at}")
            if item is not None:
                self.items.append(item)
        self._add_said(one, field)
        for call in one.tool_calls:
            if call.name in self._custom:
                self._custom_calls.add(call.id)
                self.items.append(
                    {
                        "type": "custom_tool_call",
                        "call_id": call.id,
                        "name": call.name,
                        "input": _custom_input(call.arguments),
                    }
                )
            else:
                self.items.append(
                    {
                        "type": "function_call",
                        "call_id": call.id,
                        "name": call.name,
                        "arguments": call.arguments.strip() or "{}",
                    }
                )

    def _add_said(self, one: Message, field: str) -> None:
        """Add the text as messages, and between them the items of the server's own tools."""
        if not isinstance(one.content, tuple):
            if one.content:
                self._add_message(one, one.content)
            return
        texts: list[str] = []
        for at, part in enumerate(one.content):
            if isinstance(part, TextPart):
                texts.append(part.text)
            elif isinstance(part, OpaquePart) and part.dialect == DIALECT:
                if any(texts):
                    self._add_message(one, "".join(texts))
                texts = []
                self.items.append(part.raw)
            else:
                where = f"{field}.content[{at}]"
                raise InvalidRequest(
                    f"{where}: this backend accepts only text from role assistant", param=where
                )
        if any(texts):
            self._add_message(one, "".join(texts))

    def _add_output(self, one: Message, field: str) -> None:
        if not one.tool_call_id:
            where = f"{field}.tool_call_id"
            raise InvalidRequest(f"{where}: is required in a message of role tool", param=where)
        custom = one.tool_call_id in self._custom_calls
        self.items.append(
            {
                "type": "custom_tool_call_output" if custom else "function_call_output",
                "call_id": one.tool_call_id,
                "output": _content(one.content, f"{field}.content"),
            }
        )

    def _reasoning(self, thought: Thought, id: str) -> Item | None:
        """Return `None` for reasoning that the server does not read."""
        row = self._row
        if thought.kind != "text":
            id, encrypted = opened(thought)
            summary = [{"type": "summary_text", "text": thought.text}] if thought.text else []
            item: Item = {"type": "reasoning", "summary": summary, "encrypted_content": encrypted}
            return {**item, "id": id} if id else item
        if not (thought.text and "text" in row.thoughts):
            return None
        empty: list[Item] = []
        item = {"type": "reasoning", "id": id, "summary": empty}
        if row.thought == "encrypted_content":
            return {**item, "encrypted_content": thought.text}
        return {**item, "content": [{"type": "reasoning_text", "text": thought.text}]}


def _content(content: str | Sequence[Part] | None, field: str) -> object:
    if content is None or isinstance(content, str):
        return content or ""
    return [_part(part, f"{field}[{place}]") for place, part in enumerate(content)]


def _part(part: Part, field: str) -> Item | Raw:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case ImagePart():
            detail = part.detail if isinstance(part.detail, str) else "auto"
            return {"type": "input_image", "image_url": part.url, "detail": detail}
        case OpaquePart(type="file"):
            return _file_part(part.raw, f"{field}.file")
        case OpaquePart() if part.dialect == DIALECT:
            return part.raw
        case _:
            raise InvalidRequest(f"{field}: this backend reads text, images and files", param=field)


def _file_part(raw: Raw, field: str) -> Item:
    try:
        file = _file(raw).file
    except UNREADABLE as exc:
        raise InvalidRequest(f"{field}: must be an object with file_data", param=field) from exc
    if not (file.file_data or file.file_url or file.file_id):
        raise InvalidRequest(f"{field}: file_data, file_url or file_id is required", param=field)
    return {"type": "input_file", **msgspec.to_builtins(file)}


def _custom_input(arguments: str) -> str:
    """Return the text of a custom tool's call; other arguments are the text themselves."""
    try:
        return _given(arguments).input
    except UNREADABLE:
        return arguments
