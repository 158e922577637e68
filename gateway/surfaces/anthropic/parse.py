"""Parse bodies of the Messages API, or raise an InvalidRequest that names the field.

https://docs.anthropic.com/en/api/messages. Nulls count as absent, and an absent field stays absent.
The client's own JSON of what backends of this dialect receive unchanged is kept next to the values.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.anthropic import proofs
from strowger_gateway.gateway.surfaces.anthropic.blocks import DIALECT, part_of, read_block
from strowger_gateway.gateway.surfaces.anthropic.tools import (
    NO_EFFORT,
    NO_TOOLS,
    read_effort,
    read_tools,
    thinking_budget,
)
from strowger_gateway.gateway.surfaces.anthropic.wire import (
    ALLOWED,
    Block,
    LooseTurnWire,
    MessagesWire,
    Metadata,
    RedactedBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    TurnWire,
)
from strowger_gateway.gateway.surfaces.decoding import (
    BodyReader,
    invalid_request,
    is_null,
    model_name,
)
from strowger_gateway.gateway.surfaces.marked_objects import Marks, content_of, with_marks
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message, OpaquePart, Part, TextPart, Thought, ToolCall
from strowger_gateway.schemas.requests import ChatRequest, Original
from strowger_gateway.schemas.sampling import Sampling

BETA: Final = b"anthropic-beta"

COUNTED: Final = 16
"""Stands for the `max_tokens` of a request that is only counted, beyond its thinking: backends may
require one, OpenAI's Responses API this many."""

MAX_MESSAGES: Final = 100_000

_KEPT: Final = (
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "metadata",
)
_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_metadata: Final = msgspec.json.Decoder(Metadata)
_turns: Final = msgspec.json.Decoder(list[TurnWire])
_loose_turns: Final = msgspec.json.Decoder(list[LooseTurnWire])
_system: Final[msgspec.json.Decoder[str | list[Raw]]] = msgspec.json.Decoder(str | list[Raw])

_Read = tuple[Block | OpaquePart, Marks]
_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode

READER: Final = BodyReader(MessagesWire, ALLOWED)


def parse_messages(
    body: bytes,
    *,
    model: str = "",
    headers: Iterable[tuple[bytes, bytes]] = (),
    counting: bool = False,
    prompts: bool = False,
) -> ChatRequest:
    """`POST /v1/messages`.

    model: the name to use if the body names none. counting: `max_tokens` may be absent.
    prompts: see `Inbound`. Raises InvalidRequest.
    """
    wire, extra = READER.read(body)
    max_tokens = wire.max_tokens
    if max_tokens is None:
        if not counting:
            raise InvalidRequest("max_tokens is required", param="max_tokens")
        max_tokens = COUNTED + thinking_budget(wire.thinking)
    conversation = _Conversation(wire.system, wire.messages, fewest=0 if prompts else 1)
    tools, effort = NO_TOOLS, NO_EFFORT
    if wire.tools is not UNSET or wire.tool_choice is not UNSET:
        tools = read_tools(wire.tools, wire.tool_choice)
    if wire.thinking is not UNSET or wire.output_config is not UNSET:
        effort = read_effort(wire.thinking, wire.output_config, max_tokens)
    beta = b",".join([value for name, value in headers if name == BETA])
    if beta:
        extra[BETA.decode()] = Raw(_encode(beta.decode("latin-1")))
    extra |= effort.more
    # By position, in the order of the fields: see
    # `strowger_gateway.gateway.surfaces.openai.parse.parse_chat`.
    request = ChatRequest(
        model_name(wire.model, model),
        tuple(conversation.messages),
        Sampling(
            temperature=UNSET if wire.temperature is None else wire.temperature,
            top_p=UNSET if wire.top_p is None else wire.top_p,
            top_k=wire.top_k or UNSET,
            max_tokens=max_tokens,
            stop=_stop(wire.stop_sequences) if wire.stop_sequences else UNSET,
        ),
        tools.tools,
        tools.choice,
        tools.parallel,
        effort.form,
        effort.effort,
        wire.stream or False,
        user=UNSET if wire.metadata is UNSET else _user(wire.metadata),
        extra=extra,
        nested=conversation.marked or tools.marked,
    )
    kept = {
        name: raw
        for name in _KEPT
        if isinstance(raw := getattr(wire, name), Raw) and not is_null(raw)
    }
    if conversation.signed:
        del kept["messages"]  # another vendor's proofs are in its ids
    original = Original(dialect=DIALECT, fields=kept, read=request, turns=conversation.turns)
    return replace(request, original=original)


def _stop(sequences: tuple[str, ...]) -> tuple[str, ...] | UnsetType:
    """Drop empty strings: they stop nothing."""
    return tuple([one for one in sequences if one]) or UNSET


def _user(raw: Raw) -> str | UnsetType:
    if is_null(raw):
        return UNSET
    try:
        user = _metadata.decode(raw).user_id
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, "metadata", ALLOWED) from exc
    return UNSET if user is None else user


class _Conversation:
    """The messages of one request, of `system` and `messages`.

    One message of this API can become several: each tool result is a message of its own, in its
    place among the user's content.

    marked: some have fields that our schema does not have. signed: ids of calls had signatures or
    marks in them, which they do not have here. turns: see
    strowger_gateway.schemas.requests.Original.
    """

    def __init__(self, system: Raw | UnsetType, messages: Raw, fewest: int) -> None:
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
        if not fewest <= len(turns) <= MAX_MESSAGES:
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


def _read(one: Block | Raw, where: str) -> _Read:
    return read_block(one, where) if isinstance(one, Raw) else (one, {})


def _call(block: ToolUseBlock, id: str, signature: str) -> ToolCall:
    arguments = "{}" if is_null(block.input) else bytes(block.input).decode()
    return ToolCall(id=id, name=block.name, arguments=arguments, signature=signature)


def _wrong(where: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{where} {why}", param=where)
