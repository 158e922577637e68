"""Parse `instructions` and `input` into our messages, after the stored items that they continue.

Several items can become one message: reasoning, text and calls of one turn of the model are one
message of role assistant.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType

from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null
from strowger_gateway.gateway.surfaces.marked_objects import (
    Marks,
    TypedReader,
    content_of,
    with_marks,
)
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses.carriers import is_carrier
from strowger_gateway.gateway.surfaces.responses.compaction import (
    STAYING,
    TRIGGER,
    summary_text,
)
from strowger_gateway.gateway.surfaces.responses.contents import DIALECT, read_parts
from strowger_gateway.gateway.surfaces.responses.encrypted_content import openais, opened
from strowger_gateway.gateway.surfaces.responses.item_references import is_trigger, referenced
from strowger_gateway.gateway.surfaces.responses.namespaces import joined
from strowger_gateway.gateway.surfaces.responses.wire import (
    ALLOWED,
    ITEMS,
    CallItem,
    CallOutputItem,
    CustomCallItem,
    CustomOutputItem,
    Item,
    MessageItem,
    ReasoningItem,
)
from strowger_gateway.gateway.surfaces.stored_items import NO_EARLIER_ITEMS, Compacted, EarlierItems
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message, OpaquePart, Part, TextPart, Thought, ToolCall

MAX_ITEMS: Final = 100_000
_PREVIOUS: Final = "previous_response_id"

IMAGE: Final = "image_generation_call"
NOT_STORED: Final = (
    "this gateway does not store responses (responses.store is off); "
    "send the whole conversation in input, with store: false "
    "(in Vercel's AI SDK providerOptions: {openai: {store: false}})"
)

NOTHING: Final = Raw(b"")
"""In place of an item: a reference that stands for none."""

_messages: Final[msgspec.json.Decoder[str | list[MessageItem]]] = msgspec.json.Decoder(
    str | list[MessageItem]
)
"""Of most requests; a message alone needs no type, unlike one of a union."""

_input: Final[msgspec.json.Decoder[str | list[Item]]] = msgspec.json.Decoder(str | list[Item])
_loose_input: Final[msgspec.json.Decoder[str | list[Raw]]] = msgspec.json.Decoder(str | list[Raw])
_items: Final = msgspec.json.Decoder(list[Raw])
_typed_items: Final[msgspec.json.Decoder[list[Item]]] = msgspec.json.Decoder(list[Item])
_text: Final = msgspec.json.Decoder(str)
_reader: Final = TypedReader[Item](Item, ITEMS, ALLOWED, default="message")
_fields: Final = msgspec.json.Decoder(dict[str, Raw])


class ResponsesConversation:
    """The messages of one request.

    marked: some have fields that our schema does not have.
    as_sent: servers of this API can read the items as they are: all reasoning in them, if there is
    any, is as such a server encrypted it.

    missing: references to items that `earlier` does not have: ids and places.
    carried: some items of the client only carry others (`carriers`).
    triggered: the last item asks for a summary of all others.
    """

    def __init__(
        self,
        instructions: Raw | UnsetType,
        given: Raw | UnsetType,
        earlier: EarlierItems = NO_EARLIER_ITEMS,
        *,
        empty: bool = False,
    ) -> None:
        """empty: the input may have no item.

        Raises InvalidRequest, whose `param` is the path of the invalid field.
        """
        self.marked = False
        self.as_sent = True
        self.carried = False
        self.triggered = False
        self.missing: list[tuple[str, str]] = []
        self._found = earlier.found
        self._compacted = earlier.compacted
        self._summary: Message | None = None
        self._lost = ""
        self.messages: list[Message] = []
        self._turn: _Turn | None = None
        if isinstance(instructions, Raw) and not is_null(instructions):
            self._add_instructions(instructions)
        self._instructed = len(self.messages)
        if given is UNSET or is_null(given):
            raise InvalidRequest("input is required", param="input")
        if earlier.items:
            for item in _stored(earlier.items):
                self._add(item, _PREVIOUS)
        items = _read(given)
        if isinstance(items, str):
            self._end_turn()
            self.messages.append(Message(role="user", content=items))
            return
        if not (0 if empty else 1) <= len(items) <= MAX_ITEMS:
            raise InvalidRequest(f"input must have 1 to {MAX_ITEMS} items", param="input")
        for place, item in enumerate(items):
            # Most items: text of someone who can do nothing but speak.
            if (
                type(item) is MessageItem
                and type(item.content) is str
                and item.role != "assistant"
                and item.phase is UNSET
            ):
                if self._turn is not None:
                    self._end_turn()
                self.messages.append(Message(role=item.role, content=item.content))
            else:
                self._add(item, f"input[{place}]")
        if self._turn is not None:
            self._end_turn()
        if self._lost:
            raise _unopened(self._lost)
        if self.triggered and items and not is_trigger(items[-1]):
            raise InvalidRequest(f"input: {TRIGGER} must be the last item", param="input")

    @property
    def said(self) -> bool:
        """Whether it has more than instructions."""
        return len(self.messages) > self._instructed

    def _add_instructions(self, raw: Raw) -> None:
        try:
            text = _text.decode(raw)
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, "instructions", ALLOWED) from exc
        if text:
            self.messages.append(Message(role="system", content=text))

    def _add(self, item: Item | Raw, where: str) -> None:
        more: Marks = {}
        if isinstance(item, Raw):
            raw = item
            reference = referenced(raw)
            if reference:
                self._add_stored(reference, where)
                return
            found, more = _reader.read(raw, where)
            if found == TRIGGER:
                self.triggered = True
                return
            if isinstance(found, str):
                self._own().parts.append(OpaquePart(type=found, raw=raw, dialect=DIALECT))
                return
            item = found
        match item:
            case MessageItem(role="assistant"):
                self._add_answer(item, more, where)
            case MessageItem():
                self._add_message(item, more, where)
            case ReasoningItem():
                self._add_reasoning(item, more)
            case CallItem():
                name = joined(item.namespace, item.name)
                call = ToolCall(id=item.call_id, name=name, arguments=item.arguments)
                self._own().add(call, more)
            case CustomCallItem():
                arguments = encode({"input": item.input}).decode()
                name = joined(item.namespace, item.name)
                call = ToolCall(id=item.call_id, name=name, arguments=arguments)
                self._own().add(call, more)
            case CallOutputItem() | CustomOutputItem():
                self._add_output(item, more, where)

    def _add_stored(self, id: str, where: str) -> None:
        """Add the stored or carried item of this id, or what a compaction item stands for."""
        if id in self._compacted:
            self._unfold(self._compacted[id], where)
            return
        stored = self._found.get(id)
        if stored is None:
            self.missing.append((id, where))
            return
        for item in _stored(b"[%b]" % bytes(stored)):
            self._add(item, where)

    def _unfold(self, found: Compacted | None, where: str) -> None:
        """Replace the conversation so far by what a compaction item stands for.

        One that nothing opens is an error, unless a later item stands for it as well.
        """
        if found is None:
            self._lost = where
            return
        self._end_turn()
        self._lost = ""
        stay = self._instructed if found.whole else len(self.messages)
        self.messages = [
            one
            for place, one in enumerate(self.messages[:stay])
            if place < self._instructed or (one.role in STAYING and one is not self._summary)
        ]
        for raw in found.before:
            self._add(raw, where)
        self._end_turn()
        self._summary = Message(role="user", content=summary_text(found.summary))
        self.messages.append(self._summary)
        for raw in found.after:
            self._add(raw, where)

    def _add_message(self, item: MessageItem, more: Marks, where: str) -> None:
        self._end_turn()
        marks = self._noted(with_marks(more, phase=item.phase))
        content = item.content
        if isinstance(content, list):
            content = content_of(self._parts(content, f"{where}.content"))
        self.messages.append(Message(role=item.role, content=content, marks=marks))

    def _add_answer(self, item: MessageItem, more: Marks, where: str) -> None:
        turn = self._own()
        if turn.parts and not turn.calls:
            self._end_turn()
            turn = self._own()
        content = item.content
        if isinstance(content, str):
            turn.parts.append(TextPart(text=content))
        else:
            turn.parts += self._parts(content, f"{where}.content")
        turn.mark(with_marks(more, phase=item.phase))

    def _add_reasoning(self, item: ReasoningItem, more: Marks) -> None:
        if is_carrier(item.id):
            self.carried = True
            return
        turn = self._own()
        if turn.parts and not turn.calls:
            self._end_turn()
            turn = self._own()
        turn.mark(with_marks(more))
        text = "".join([one.text for one in (item.content or item.summary)])
        if not item.encrypted_content:
            self.as_sent = False
            if text:
                turn.thoughts.append(Thought(text=text))
            return
        found = opened(item.encrypted_content)
        if found is None:
            turn.thoughts.append(openais(item.id or "", text, item.encrypted_content))
            return
        self.as_sent = False
        thought, call = found
        if call:
            turn.signatures[call] = thought.signature
        else:
            turn.thoughts.append(thought)

    def _add_output(self, item: CallOutputItem | CustomOutputItem, more: Marks, where: str) -> None:
        self._end_turn()
        content = item.output
        if isinstance(content, list):
            content = content_of(self._parts(content, f"{where}.output")) if content else ""
        marks = self._noted(with_marks(more))
        self.messages.append(
            Message(role="tool", tool_call_id=item.call_id, content=content, marks=marks)
        )

    def _own(self) -> "_Turn":
        """Return the model's turn that the next item belongs to."""
        if self._turn is None:
            self._turn = _Turn()
        return self._turn

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        last = self.messages[-1] if self.messages else None
        if turn.only_thinks and last is not None and last.role == "assistant":
            message = turn.after(self.messages.pop())
        else:
            message = turn.message()
        self._noted(message.marks)
        self.messages.append(message)

    def _parts(self, raws: list[Raw], where: str) -> list[Part]:
        parts = read_parts(raws, where)
        for part in parts:
            self._noted(getattr(part, "marks", UNSET))
        return parts

    def _noted(self, marks: Raw | UnsetType) -> Raw | UnsetType:
        self.marked = self.marked or marks is not UNSET
        return marks


def _read(given: Raw) -> "str | Sequence[Item | Raw]":
    try:
        return _messages.decode(given)
    except (DecodeError, RecursionError):
        return _read_items(given)


def _read_items(given: Raw) -> "str | Sequence[Item | Raw]":
    with suppress(DecodeError, RecursionError):
        return _input.decode(given)
    try:
        return _loose_input.decode(given)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, "input", ALLOWED) from exc


def _stored(items: bytes) -> "Sequence[Item | Raw]":
    """Read a list of stored items, which were valid when they came."""
    with suppress(DecodeError, RecursionError):
        return _typed_items.decode(items)
    return _items.decode(items)


class _Turn:
    """Consecutive items of the model, which become one message."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.calls: list[ToolCall] = []
        self.thoughts: list[Thought] = []
        self.signatures: dict[str, str] = {}
        self._marks: Marks = {}

    def add(self, call: ToolCall, more: Marks) -> None:
        signature = self.signatures.get(call.id)
        if signature:
            call = msgspec.structs.replace(call, signature=signature)
        self.calls.append(call)
        self._marks |= more

    def mark(self, marks: Raw | UnsetType) -> None:
        if isinstance(marks, Raw):
            self._marks |= _fields.decode(marks)

    @property
    def only_thinks(self) -> bool:
        """Return whether it has nothing but reasoning."""
        return not (self.parts or self.calls)

    def after(self, said: Message) -> Message:
        """Return a message with this turn's reasoning, which its vendor sent after the text."""
        marks = _fields.decode(said.marks) if isinstance(said.marks, Raw) else {}
        return msgspec.structs.replace(
            said,
            thoughts=(*said.thoughts, *self.thoughts),
            marks=with_marks(marks | self._marks),
        )

    def message(self) -> Message:
        empty = None if self.calls or self.thoughts else ""
        return Message(
            role="assistant",
            content=content_of(self.parts) if self.parts else empty,
            tool_calls=tuple(self.calls),
            thoughts=tuple(self.thoughts),
            marks=with_marks(self._marks),
        )


def _unopened(where: str) -> InvalidRequest:
    field = f"{where}.encrypted_content"
    return InvalidRequest(
        f"{field}: cannot be opened: it is another key's, older than responses.sealed_days, or was "
        "changed; send the messages that it stands for, or begin a new conversation",
        param=field,
    )
