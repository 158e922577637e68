"""Parse tools, the tool choice and the response format of the OpenAI dialect.

Unknown types stay JSON and are forwarded to backends of the same dialect.
"""

from typing import Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError

from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null, is_object
from strowger_gateway.gateway.surfaces.openai.wire import ALLOWED, FunctionName, NonEmpty
from strowger_gateway.gateway.surfaces.strict_structs import strict
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    FunctionTool,
    OpaqueTool,
    ResponseFormat,
    Tool,
    ToolChoice,
)

T = TypeVar("T")
Mode = Literal["none", "auto", "required"]


class _Typed(Struct, frozen=True, kw_only=True):
    type: NonEmpty


class _Function(Struct, frozen=True, kw_only=True):
    name: FunctionName
    description: str | None = None
    parameters: Raw | UnsetType = UNSET
    strict: bool | None = None


class _FunctionWire(Struct, frozen=True, kw_only=True):
    type: Literal["function"]
    function: _Function


class _Named(Struct, frozen=True, kw_only=True):
    name: FunctionName


class _NamedWire(Struct, frozen=True, kw_only=True):
    type: str = ""
    function: _Named


class _Schema(Struct, frozen=True, kw_only=True):
    name: str | None = None
    description: str | None = None
    schema: Raw | UnsetType = UNSET
    strict: bool | None = None


class _SchemaWire(Struct, frozen=True, kw_only=True):
    json_schema: _Schema


class _FormWire(Struct, frozen=True, kw_only=True):
    type: str
    json_schema: _Schema | None = None


_typed: Final = msgspec.json.Decoder(_Typed)
_function: Final = msgspec.json.Decoder(_FunctionWire)
_named: Final = msgspec.json.Decoder(_NamedWire)
_schema: Final = msgspec.json.Decoder(_SchemaWire)
_strict_function: Final = msgspec.json.Decoder(strict(_FunctionWire))
_strict_named: Final = msgspec.json.Decoder(strict(_NamedWire))
_strict_form: Final = msgspec.json.Decoder(strict(_FormWire))
_MODES: Final[dict[bytes, Mode]] = {
    b'"none"': "none",
    b'"auto"': "auto",
    b'"required"': "required",
}


def read_tools(raws: list[Raw], *, strictly: bool = False) -> tuple[Tool, ...]:
    """Raise InvalidRequest. strictly: see read_messages."""
    function = _strict_function if strictly else _function
    return tuple([_read_tool(raw, f"tools[{place}]", function) for place, raw in enumerate(raws)])


def read_tool_choice(
    choice: Raw, tools: tuple[Tool, ...] | UnsetType, *, strictly: bool = False
) -> ToolChoice | UnsetType:
    """Return `UNSET` if there are no tools and none is required.

    Raises InvalidRequest, also for a choice that no tool satisfies. strictly: see read_messages.
    """
    if is_null(choice):
        return UNSET
    if not is_object(choice):
        mode = _read_mode(choice, tools)
        return UNSET if tools is UNSET else ToolChoice(mode=mode, raw=choice)
    if strictly:
        _decode(_strict_named, choice, "tool_choice")
    if _decode(_typed, choice, "tool_choice").type != "function":
        return ToolChoice(mode="opaque", raw=choice)
    name = _decode(_named, choice, "tool_choice").function.name
    if tools is UNSET or not any(isinstance(t, FunctionTool) and t.name == name for t in tools):
        raise InvalidRequest(
            f"tool_choice.function.name: tools has no function named {name}",
            param="tool_choice.function.name",
        )
    return ToolChoice(mode="named", name=name, raw=choice)


def read_response_format(form: Raw, *, strictly: bool = False) -> ResponseFormat | UnsetType:
    """Return `UNSET` for a null. Raises InvalidRequest. strictly: see read_messages."""
    where = "response_format"
    if is_null(form):
        return UNSET
    if strictly:
        _decode(_strict_form, form, where)
    match _decode(_typed, form, where).type:
        case "text" | "json_object" as kind:
            return ResponseFormat(type=kind, raw=form)
        case "json_schema":
            wire = _decode(_schema, form, where).json_schema
            return ResponseFormat(
                type="json_schema",
                name=UNSET if wire.name is None else wire.name,
                description=UNSET if wire.description is None else wire.description,
                schema=_object(wire.schema, f"{where}.json_schema.schema"),
                strict=UNSET if wire.strict is None else wire.strict,
                raw=form,
            )
        case _:
            return ResponseFormat(type="opaque", raw=form)


def _read_tool(raw: Raw, where: str, reader: "msgspec.json.Decoder[_FunctionWire]") -> Tool:
    try:
        wire = reader.decode(raw).function
    except ValidationError as exc:
        kind = _decode(_typed, raw, where).type
        if kind != "function":
            return OpaqueTool(type=kind, raw=raw)
        raise invalid_request(exc, where, ALLOWED) from exc
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, where, ALLOWED) from exc
    return FunctionTool(
        name=wire.name,
        description=UNSET if wire.description is None else wire.description,
        parameters=_object(wire.parameters, f"{where}.function.parameters"),
        strict=UNSET if wire.strict is None else wire.strict,
        raw=raw,
    )


def _read_mode(raw: Raw, tools: tuple[Tool, ...] | UnsetType) -> Mode:
    mode = _MODES.get(bytes(raw))
    if mode is None:
        raise InvalidRequest(
            'tool_choice must be "none", "auto", "required" or an object that names a function',
            param="tool_choice",
        )
    if mode == "required" and tools is UNSET:
        raise InvalidRequest("tool_choice: required needs at least one tool", param="tool_choice")
    return mode


def _object(raw: Raw | UnsetType, where: str) -> Raw | UnsetType:
    if raw is UNSET or is_object(raw):
        return raw
    if is_null(raw):
        return UNSET
    raise InvalidRequest(f"{where} must be a JSON schema, which is an object", param=where)


def _decode(decoder: "msgspec.json.Decoder[T]", raw: Raw, where: str) -> T:
    try:
        return decoder.decode(raw)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, where, ALLOWED) from exc
