"""Messages of the OpenAI dialect: their roles, and what each role must carry."""

from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType

from gateway.surfaces.decoding import given, refusal
from gateway.surfaces.openai_parts import read_calls, read_parts
from gateway.surfaces.openai_wire import ALLOWED
from schemas.errors import InvalidRequest
from schemas.messages import Message, OpaquePart, Part, Role, TextPart, ToolCall


class _MessageWire(Struct, frozen=True, kw_only=True):
    role: Role
    content: str | list[Raw] | None = None
    name: str | None = None
    tool_calls: list[Raw] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_signature: str | None = None
    refusal: str | None = None
    function_call: Raw | UnsetType = UNSET
    audio: Raw | UnsetType = UNSET


_decoder: Final = msgspec.json.Decoder(_MessageWire)
_SPEAKERS: Final = frozenset(("user", "system", "developer"))


def read_messages(raws: list[Raw]) -> tuple[Message, ...]:
    """Raises InvalidRequest with a path that starts with `messages[i]`."""
    return tuple([_read(raw, place) for place, raw in enumerate(raws)])


def _read(raw: Raw, place: int) -> Message:
    try:
        wire = _decoder.decode(raw)
    except (DecodeError, RecursionError) as exc:
        raise refusal(exc, f"messages[{place}]", ALLOWED) from exc
    content, role = wire.content, wire.role
    if (
        type(content) is str
        and content
        and not wire.tool_calls
        and (role in _SPEAKERS or _is_plain(wire))
    ):
        name = wire.name
        return Message(role=role, content=content, name=UNSET if name is None else name, raw=raw)
    return _read_fully(wire, raw, f"messages[{place}]")


def _is_plain(wire: _MessageWire) -> bool:
    """An assistant message that is nothing but its text."""
    return (
        wire.role == "assistant"
        and wire.reasoning is None
        and wire.reasoning_content is None
        and wire.reasoning_signature is None
        and wire.function_call is UNSET
        and wire.audio is UNSET
    )


def _read_fully(wire: _MessageWire, raw: Raw, where: str) -> Message:
    calls, opaque = _read_extras(wire, where)
    content = _read_content(wire, f"{where}.content")
    _check_content(wire, content, bool(calls or opaque), f"{where}.content")
    if wire.role == "tool" and not wire.tool_call_id:
        path = f"{where}.tool_call_id"
        raise InvalidRequest(f"{path} is required in a message of role tool", param=path)
    thinking = wire.reasoning_content if wire.reasoning is None else wire.reasoning
    return Message(
        role=wire.role,
        content=_with_opaque(content, opaque),
        name=_unset(wire.name),
        tool_calls=calls,
        tool_call_id=_unset(wire.tool_call_id),
        reasoning=_unset(thinking),
        signature=_unset(wire.reasoning_signature),
        raw=raw,
    )


def _read_extras(
    wire: _MessageWire, where: str
) -> tuple[tuple[ToolCall, ...], tuple[OpaquePart, ...]]:
    """Tool calls, and whatever else of an earlier turn only the OpenAI dialect can say."""
    calls: tuple[ToolCall, ...] = ()
    opaque: tuple[OpaquePart, ...] = ()
    if wire.tool_calls:
        path = f"{where}.tool_calls"
        if wire.role != "assistant":
            raise InvalidRequest(f"{path} belongs in a message of role assistant", param=path)
        calls, opaque = read_calls(wire.tool_calls, path)
    for kind, raw in (("function_call", wire.function_call), ("audio", wire.audio)):
        value = given(raw)
        if value is not UNSET:
            opaque = (*opaque, OpaquePart(type=kind, raw=value))
    return calls, opaque


def _read_content(wire: _MessageWire, where: str) -> str | tuple[Part, ...] | None:
    """An assistant that refused said its refusal, as far as other dialects are concerned."""
    match wire.content:
        case None:
            return wire.refusal
        case str() as text:
            return text
        case parts:
            return read_parts(parts, where)


def _check_content(
    wire: _MessageWire, content: str | tuple[Part, ...] | None, calls: bool, where: str
) -> None:
    match wire.role:
        case "assistant" if content is None:
            if not calls and not (wire.reasoning or wire.reasoning_content):
                raise InvalidRequest(
                    f"{where} is required in an assistant message without tool_calls", param=where
                )
        case "user" if content is not None and _is_blank(content):
            raise InvalidRequest(f"{where} must not be empty", param=where)
        case "assistant" | "function":
            pass
        case role if content is None:
            raise InvalidRequest(f"{where} is required in a message of role {role}", param=where)
        case _:
            pass


def _is_blank(content: str | tuple[Part, ...]) -> bool:
    if isinstance(content, str):
        return not content
    return all(isinstance(part, TextPart) and not part.text for part in content)


def _with_opaque(
    content: str | tuple[Part, ...] | None, opaque: tuple[OpaquePart, ...]
) -> str | tuple[Part, ...] | None:
    if not opaque:
        return content
    match content:
        case None:
            return opaque
        case str() as text:
            return (TextPart(text=text), *opaque)
        case parts:
            return (*parts, *opaque)


def _unset(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text
