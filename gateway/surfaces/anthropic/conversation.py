"""Parse `system` and `messages` into our messages.

One message of this API can become several: each tool result is a message of its own, in its place
among the user's content.
"""

from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType

from strowger_gateway.gateway.surfaces.anthropic import proofs
from strowger_gateway.gateway.surfaces.anthropic.blocks import part_of, read_block
from strowger_gateway.gateway.surfaces.anthropic.wire import (
    ALLOWED,
    Block,
    LooseTurnWire,
    RedactedBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    TurnWire,
)
from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null
from strowger_gateway.gateway.surfaces.marked_objects import Marks, content_of, with_marks
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message, OpaquePart, Part, TextPart, Thought, ToolCall

MAX_MESSAGES: Final = 100_000

_turns: Final = msgspec.json.Decoder(list[TurnWire])
_loose_turns: Final = msgspec.json.Decoder(list[LooseTurnWire])
_system: Final[msgspec.json.Decoder[str | list[Raw]]] = msgspec.json.Decoder(str | list[Raw])

_Read = tuple[Block | OpaquePart, Marks]


class MessagesConversation:
    """The messages of one request.

    marked: some have fields that our schema does not have. signed: ids of calls had signatures or
    marks in them, which they do not have here. turns: see
    strowger_gateway.schemas.requests.Original.
    """

    def __init__(self, system: Raw | UnsetType, messages: Raw) -> None:
        """Raises InvalidRequest, whose `param` is the path of the invalid field."""
        self.marked = self.signed = False
        self.messages: list[Message] = []
        if isinstance(system, Raw):
            self._add_system(system)
        try:
            turns: list[TurnWire] | list[LooseTurnWire] = _turns.decode(messages)
        except (DecodeError, RecursionError):
            try:
                turns = _loose_turns.decode(messages)
            except (DecodeError, RecursionError) as exc:
                raise invalid_request(exc, "messages", ALLOWED) from exc
        if not 0 < len(turns) <= MAX_MESSAGES:
            told = f"messages must have 1 to {MAX_MESSAGES} entries"
            raise InvalidRequest(told, param="messages")
        counts: list[int] = []
        for place, turn in enumerate(turns):
            before = len(self.messages)
            self._add(turn, f"messages[{place}]")
            counts.append(len(self.messages) - before)
        self.turns = tuple(counts)

    def _add(self, turn: TurnWire | LooseTurnWire, where: str) -> None:
        content = turn.content
        if isinstance(content, str):
            self.messages.append(Message(role=turn.role, content=content))
            return
        blocks = [_read(one, f"{where}.content[{at}]") for at, one in enumerate(content)]
        if turn.role == "assistant":
            self._add_assistant(blocks, where)
        else:
            self._add_speaker(blocks, turn, where)

    def _add_system(self, raw: Raw) -> None:
        try:
            system = _system.decode(raw)
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, "system", ALLOWED) from exc
        if isinstance(system, list):
            parts = self._parts(system, "system")
            for at, part in enumerate(parts):
                if not isinstance(part, TextPart):
                    raise _wrong(f"system[{at}]", "must be a text block")
            system = content_of(parts)
        if system:
            self.messages.append(Message(role="system", content=system))

    def _add_speaker(self, blocks: list[_Read], turn: TurnWire | LooseTurnWire, where: str) -> None:
        """Add content, and each tool result as a message of its own."""
        parts: list[Part] = []
        found = len(self.messages)
        for at, (block, more) in enumerate(blocks):
            path = f"{where}.content[{at}]"
            if isinstance(block, ToolResultBlock):
                if parts:
                    self.messages.append(Message(role=turn.role, content=content_of(parts)))
                    parts = []
                self._add_result(block, more, path)
                continue
            part = part_of(block, more, path)
            if part is None:
                raise _wrong(path, "belongs in a message of role assistant")
            parts.append(self._noted(part))
        if parts or len(self.messages) == found:
            content = content_of(parts) if parts else ""
            self.messages.append(Message(role=turn.role, content=content))

    def _add_result(self, block: ToolResultBlock, more: Marks, where: str) -> None:
        content = block.content
        if isinstance(content, list):
            content = content_of(self._parts(content, f"{where}.content")) if content else ""
        failed: Raw | UnsetType = UNSET
        if block.is_error is not None:
            failed = Raw(b"true" if block.is_error else b"false")
        marks = with_marks(more, cache_control=block.cache_control, is_error=failed)
        self.marked = self.marked or marks is not UNSET
        self.messages.append(
            Message(
                role="tool",
                tool_call_id=self._plain_id(block.tool_use_id)[0],
                content="" if content is None else content,
                marks=marks,
            )
        )

    def _add_assistant(self, blocks: list[_Read], where: str) -> None:
        parts: list[Part] = []
        calls: list[ToolCall] = []
        thoughts: list[Thought] = []
        signatures: dict[str, str] = {}
        marks: Marks = {}
        for at, (block, more) in enumerate(blocks):
            path = f"{where}.content[{at}]"
            match block:
                case ThinkingBlock():
                    signed = proofs.call_of(block.signature)
                    if signed is not None:
                        signatures[signed[0]] = signed[1]
                        if block.thinking:
                            thoughts.append(Thought(text=block.thinking))
                        continue
                    thoughts.append(proofs.read(block.thinking, block.signature, ""))
                case RedactedBlock():
                    thoughts.append(proofs.read("", "", block.data))
                case ToolUseBlock():
                    id, signature = self._plain_id(block.id)
                    calls.append(_call(block, id, signature or signatures.get(id, "")))
                    fields = with_marks(
                        more, cache_control=block.cache_control, caller=block.caller
                    )
                    if isinstance(fields, Raw):
                        marks |= _fields(fields)
                    continue
                case _:
                    part = part_of(block, more, path)
                    if part is None:
                        raise _wrong(path, "belongs in a message of role user")
                    parts.append(self._noted(part))
                    continue
            marks |= more
        noted = with_marks(marks)
        self.marked = self.marked or noted is not UNSET
        self.messages.append(
            Message(
                role="assistant",
                content=content_of(parts) if parts else None if calls or thoughts else "",
                tool_calls=tuple(calls),
                thoughts=tuple(thoughts),
                marks=noted,
            )
        )

    def _plain_id(self, id: str) -> tuple[str, str]:
        """Return the id of a call without the signature in it, and that."""
        found = proofs.plain_id(id)
        self.signed = self.signed or found[0] != id
        return found

    def _parts(self, raws: list[Raw], where: str) -> list[Part]:
        parts: list[Part] = []
        for at, raw in enumerate(raws):
            path = f"{where}[{at}]"
            part = part_of(*read_block(raw, path), path)
            if part is None:
                raise _wrong(path, "must be content: a text, an image or a document")
            parts.append(self._noted(part))
        return parts

    def _noted(self, part: Part) -> Part:
        if not self.marked and not isinstance(part, OpaquePart):
            self.marked = getattr(part, "marks", UNSET) is not UNSET
        return part


_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def _read(one: Block | Raw, where: str) -> _Read:
    return read_block(one, where) if isinstance(one, Raw) else (one, {})


def _call(block: ToolUseBlock, id: str, signature: str) -> ToolCall:
    arguments = "{}" if is_null(block.input) else bytes(block.input).decode()
    return ToolCall(id=id, name=block.name, arguments=arguments, signature=signature)


def _wrong(where: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{where} {why}", param=where)
