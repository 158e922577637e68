"""Parse messages of the OpenAI dialect: their roles, and the fields each role requires."""

from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null, null_to_unset
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.openai.parts import read_calls, read_parts
from strowger_gateway.gateway.surfaces.openai.reasoning import call_proofs, read_reasoning
from strowger_gateway.gateway.surfaces.openai.wire import ALLOWED
from strowger_gateway.gateway.surfaces.strict_structs import strict
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    Message,
    OpaquePart,
    Part,
    Role,
    TextPart,
    Thought,
    ToolCall,
)


class _MessageWire(Struct, frozen=True, kw_only=True):
    role: Role
    content: str | list[Raw] | None = None
    name: str | UnsetType | None = UNSET
    tool_calls: list[Raw] | UnsetType | None = UNSET
    tool_call_id: str | UnsetType | None = UNSET
    reasoning: str | UnsetType | None = UNSET
    reasoning_content: str | UnsetType | None = UNSET
    reasoning_signature: str | UnsetType | None = UNSET
    reasoning_details: list[Raw] | UnsetType | None = UNSET
    refusal: str | UnsetType | None = UNSET
    function_call: Raw | UnsetType = UNSET
    audio: Raw | UnsetType = UNSET


_decoder: Final = msgspec.json.Decoder(_MessageWire)
_strict: Final = msgspec.json.Decoder(strict(_MessageWire))
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
MAX_MESSAGES: Final = 10_000
_SPEAKERS: Final = frozenset(("user", "system", "developer"))


def read_messages(raws: list[Raw], *, strictly: bool = False) -> tuple[Message, ...]:
    """Raise InvalidRequest with a path that starts with `messages[i]`.

    strictly: also reject fields that our schema does not have.
    """
    if len(raws) > MAX_MESSAGES:
        raise InvalidRequest(
            f"messages has {len(raws)} entries; the maximum is {MAX_MESSAGES}", param="messages"
        )
    decode = (_strict if strictly else _decoder).decode
    messages: list[Message] = []
    for place, raw in enumerate(raws):
        try:
            wire = decode(raw)
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, f"messages[{place}]", ALLOWED) from exc
        role, content, name = wire.role, wire.content, wire.name
        # Most messages: text of someone who can do nothing but speak.
        if (
            content
            and type(content) is str
            and role in _SPEAKERS
            and wire.tool_calls is UNSET
            and wire.refusal is UNSET
            and name is not None
        ):
            messages.append(Message(role=role, content=content, name=name, raw=raw))
        else:
            messages.append(_read(wire, _without_nulls(wire, raw), place, strictly))
    return tuple(messages)


def _without_nulls(wire: _MessageWire, raw: Raw) -> Raw:
    """Return the message without what vendors refuse: nulls, empty lists, and calls without a type.

    Clients that dump the answer's message send them; those that build a call from a stream's pieces
    leave its type out. A content without anything becomes what the
    role has: null of the assistant, an empty text of all others.
    """
    if (
        wire.name is not None
        and wire.content != []
        and (wire.content is not None or wire.role != "tool")
        and wire.tool_calls is not None
        and wire.tool_calls != []
        and wire.tool_call_id is not None
        and wire.reasoning is not None
        and wire.reasoning_content is not None
        and wire.reasoning_signature is not None
        and wire.reasoning_details is not None
        and wire.refusal is not None
        and (wire.function_call is UNSET or not is_null(wire.function_call))
        and (wire.audio is UNSET or not is_null(wire.audio))
        and (wire.tool_calls is UNSET or all(map(_is_typed, wire.tool_calls)))
    ):
        return raw
    kept = {
        name: one
        for name, one in _fields.decode(raw).items()
        if name == "content"
        or not (is_null(one) or (name == "tool_calls" and wire.tool_calls == []))
    }
    if wire.tool_calls:
        kept["tool_calls"] = Raw(encode([_typed(one) for one in wire.tool_calls]))
    if wire.content == [] or (wire.content is None and wire.role == "tool"):
        kept["content"] = Raw(b"null" if wire.role == "assistant" else b'""')
    return Raw(encode(kept))


def _is_typed(call: Raw) -> bool:
    return b'"type"' in bytes(call)


def _typed(call: Raw) -> Raw:
    """Return the call with its type, which is `function` where the client writes none."""
    if _is_typed(call):
        return call
    try:
        fields = _fields.decode(call)
    except DecodeError:
        return call  # the reader of calls says what is wrong
    return Raw(encode({"type": "function", **fields})) if "function" in fields else call


def _read(wire: _MessageWire, raw: Raw, place: int, strictly: bool) -> Message:
    role, content = wire.role, wire.content
    if strictly and isinstance(wire.refusal, str):
        raise _wrong(place, "refusal", "is not a field of OpenAI's requests that others know")
    if role == "assistant":
        return _read_assistant(wire, raw, place, strictly)
    if wire.tool_calls:
        raise _wrong(place, "tool_calls", "belongs in a message of role assistant")
    if isinstance(content, list):
        content = read_parts(content, place, strictly=strictly) if content else ""
    if content is None and role == "tool":
        content = ""
    if content is None and role != "function":
        raise _wrong(place, "content", f"is required in a message of role {role}")
    name, answers = wire.name, wire.tool_call_id
    if role == "tool" and not isinstance(answers, str):
        raise _wrong(place, "tool_call_id", "is required in a message of role tool")
    return Message(
        role=role,
        content=content,
        name=UNSET if name is None else name,
        tool_call_id=UNSET if answers is None else answers,
        raw=raw,
    )


def _read_assistant(wire: _MessageWire, raw: Raw, place: int, strictly: bool) -> Message:
    """Read an assistant message; a refusal becomes its content, for other dialects."""
    content, name = wire.content, wire.name
    if isinstance(content, list):
        content = read_parts(content, place, strictly=strictly) if content else None
    if content is None and isinstance(wire.refusal, str):
        content = wire.refusal
    calls, opaque = (
        read_calls(wire.tool_calls, place, strictly=strictly) if wire.tool_calls else ((), ())
    )
    if wire.function_call is not UNSET or wire.audio is not UNSET:
        opaque = (*opaque, *_other_dialect(wire))
    thinking = wire.reasoning if isinstance(wire.reasoning, str) else wire.reasoning_content
    thoughts: tuple[Thought, ...] = ()
    if wire.reasoning_details:
        thoughts = read_reasoning(wire.reasoning_details, place)
        if calls:
            calls = _signed(calls, call_proofs(thoughts, wire.reasoning_details))
    signature = wire.reasoning_signature
    return Message(
        role="assistant",
        content=_with_opaque(content, opaque) if opaque else content,
        name=UNSET if name is None else name,
        tool_calls=calls,
        reasoning=UNSET if thinking is None else thinking,
        signature=UNSET if signature is None else signature,
        thoughts=thoughts,
        raw=raw,
    )


def _signed(calls: tuple[ToolCall, ...], proofs: dict[str, str]) -> tuple[ToolCall, ...]:
    """Return the calls with the proofs that the client sends elsewhere."""
    return tuple(
        [
            one if one.signature or one.id not in proofs else replace(one, signature=proofs[one.id])
            for one in calls
        ]
    )


def _other_dialect(wire: _MessageWire) -> tuple[OpaquePart, ...]:
    """Return the parts of an earlier answer that only the OpenAI dialect can represent."""
    named = (
        ("function_call", null_to_unset(wire.function_call)),
        ("audio", null_to_unset(wire.audio)),
    )
    return tuple([OpaquePart(type=kind, raw=raw) for kind, raw in named if raw is not UNSET])


def _with_opaque(
    content: str | tuple[Part, ...] | None, opaque: tuple[OpaquePart, ...]
) -> tuple[Part, ...]:
    match content:
        case None:
            return opaque
        case str() as text:
            return (TextPart(text=text), *opaque)
        case parts:
            return (*parts, *opaque)


def _wrong(place: int, field: str, why: str) -> InvalidRequest:
    path = f"messages[{place}].{field}"
    return InvalidRequest(f"{path} {why}", param=path)
