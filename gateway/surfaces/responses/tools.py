"""Parse tools, the tool choice, and what determines how the model thinks and answers.

A custom tool, which takes text instead of JSON, becomes a function with one string; a grammar of
that text is in the string's description, because no other dialect can enforce it.
"""

from collections.abc import Collection, Mapping
from typing import Final, Literal

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null, is_object
from strowger_gateway.gateway.surfaces.marked_objects import (
    Marks,
    TypedReader,
    unknown_fields,
    with_marks,
)
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses.contents import DIALECT
from strowger_gateway.gateway.surfaces.responses.namespaces import joined
from strowger_gateway.gateway.surfaces.responses.wire import (
    ALLOWED,
    CALLED,
    TOOLS,
    Chosen,
    Custom,
    Function,
    Grammar,
    Namespace,
    Reasoning,
    Text,
    TextFormat,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    FunctionTool,
    OpaqueTool,
    ResponseFormat,
    Tool,
    ToolChoice,
)

INPUT: Final = "input"
"""The only argument of the function that stands for a custom tool."""

Mode = Literal["none", "auto", "required"]

_MODES: Final[Mapping[bytes, Mode]] = {
    b'"none"': "none",
    b'"auto"': "auto",
    b'"required"': "required",
}
_reader: Final = TypedReader[Function | Custom | Namespace](
    Function | Custom | Namespace, TOOLS, ALLOWED
)
_grammar: Final = msgspec.json.Decoder(Grammar)
_chosen: Final = msgspec.json.Decoder(Chosen)
_text: Final = msgspec.json.Decoder(Text)
_reasoning: Final = msgspec.json.Decoder(Reasoning)


class ToolsRead(Struct, frozen=True, kw_only=True):
    """marked: some have fields that our schema does not have."""

    tools: tuple[Tool, ...] | UnsetType = UNSET
    choice: ToolChoice | UnsetType = UNSET
    marked: bool = False


NO_TOOLS: Final = ToolsRead()
"""Of a request without `tools` and `tool_choice`."""


def read_tools(raws: list[Raw] | None, choice: Raw | UnsetType) -> ToolsRead:
    """Raise InvalidRequest, also for a choice that no tool satisfies."""
    known: tuple[Tool, ...] | UnsetType = UNSET
    marked = False
    if raws:
        known = tuple(
            [one for place, raw in enumerate(raws) for one in _tools(raw, f"tools[{place}]")]
        )
        marked = any(isinstance(one, FunctionTool) and one.marks is not UNSET for one in known)
    if choice is UNSET or is_null(choice):
        return ToolsRead(tools=known, marked=marked)
    if not is_object(choice):
        mode = _MODES.get(bytes(choice))
        if mode is None:
            raise InvalidRequest(
                f"tool_choice must be {ALLOWED['tool_choice']}", param="tool_choice"
            )
        return _with_mode(mode, known, marked)
    try:
        wanted = _chosen.decode(choice)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, "tool_choice", ALLOWED) from exc
    if wanted.type == "allowed_tools":
        return _with_mode(wanted.mode, _allowed(wanted, known), marked)
    name = _found(wanted, known, "tool_choice")
    if not name:
        return ToolsRead(tools=known, choice=ToolChoice(mode="opaque", raw=choice), marked=marked)
    return ToolsRead(tools=known, choice=ToolChoice(mode="named", name=name), marked=marked)


def _with_mode(mode: Mode, tools: tuple[Tool, ...] | UnsetType, marked: bool) -> ToolsRead:
    if tools is UNSET:
        if mode == "required":
            told = "tool_choice: required needs at least one tool"
            raise InvalidRequest(told, param="tool_choice")
        return ToolsRead()
    return ToolsRead(tools=tools, choice=ToolChoice(mode=mode), marked=marked)


def _allowed(wanted: Chosen, tools: tuple[Tool, ...] | UnsetType) -> tuple[Tool, ...]:
    """Return the tools that the choice allows."""
    names: set[str] = set()
    types: set[str] = set()
    for place, one in enumerate(wanted.tools or ()):
        name = _found(one, tools, f"tool_choice.tools[{place}]")
        (names if name else types).add(name or one.type)
    if not names and not types:
        raise InvalidRequest("tool_choice.tools must not be empty", param="tool_choice.tools")
    return tuple([one for one in tools or () if _is_among(one, names, types)])


def _is_among(tool: Tool, names: Collection[str], types: Collection[str]) -> bool:
    return tool.name in names if isinstance(tool, FunctionTool) else tool.type in types


def _found(one: Chosen, tools: tuple[Tool, ...] | UnsetType, where: str) -> str:
    """Return the name of the chosen function; "" for a tool that only OpenAI has."""
    if one.type not in CALLED:
        if any(isinstance(tool, OpaqueTool) and tool.type == one.type for tool in tools or ()):
            return ""
        raise InvalidRequest(f"{where}.type: tools has no tool of type {one.type}", param=where)
    if not one.name:
        raise InvalidRequest(f"{where}.name is required", param=f"{where}.name")
    if not any(isinstance(tool, FunctionTool) and tool.name == one.name for tool in tools or ()):
        raise InvalidRequest(
            f"{where}.name: tools has no tool named {one.name}", param=f"{where}.name"
        )
    return one.name


def _tools(raw: Raw, where: str) -> list[Tool]:
    """Return the tool, or the tools of a namespace; the first has the namespace's description."""
    found, more = _reader.read(raw, where)
    if isinstance(found, str):
        return [OpaqueTool(type=found, raw=raw, dialect=DIALECT)]
    if not isinstance(found, Namespace):
        return [_tool(found, more, where)]
    tools: list[Tool] = []
    told = found.description
    for place, one in enumerate(found.tools):
        within = f"{where}.tools[{place}]"
        member, marks = _reader.read(one, within)
        if isinstance(member, str | Namespace):
            raise InvalidRequest(f"{within}.type must be function or custom", param=within)
        if told:
            whole = f"{told}\n\n{member.description}" if member.description else told
            member, told = msgspec.structs.replace(member, description=whole), None
        name = joined(found.name, member.name)
        tools.append(_tool(msgspec.structs.replace(member, name=name), {**more, **marks}, within))
    return tools


def _tool(found: Function | Custom, more: Marks, where: str) -> FunctionTool:
    description = UNSET if found.description is None else found.description
    if isinstance(found, Function):
        parameters = found.parameters
        if isinstance(parameters, Raw) and not is_object(parameters):
            if not is_null(parameters):
                field = f"{where}.parameters"
                raise InvalidRequest(
                    f"{field} must be a JSON schema, which is an object", param=field
                )
            parameters = UNSET
        return FunctionTool(
            name=found.name,
            description=description,
            parameters=parameters,
            strict=UNSET if found.strict is None else found.strict,
            marks=with_marks(more),
        )
    hint = "The input, as it is."
    if isinstance(found.format, Raw) and not is_null(found.format):
        grammar = _read_grammar(found.format, f"{where}.format")
        if grammar.type != "text":
            more = {**more, "format": found.format}
            hint = f"A text by this grammar ({grammar.syntax}):\n{grammar.definition}"
    schema = {
        "type": "object",
        "properties": {INPUT: {"type": "string", "description": hint}},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return FunctionTool(
        name=found.name,
        description=description,
        parameters=Raw(encode(schema)),
        marks=with_marks(more),
    )


def _read_grammar(raw: Raw, where: str) -> Grammar:
    try:
        return _grammar.decode(raw)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, where, ALLOWED) from exc


def read_text(raw: Raw | UnsetType, extra: dict[str, Raw]) -> ResponseFormat | UnsetType:
    """Return the answer's format. What the schema does not have goes to `extra`."""
    if raw is UNSET or is_null(raw):
        return UNSET
    try:
        wire = _text.decode(raw)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, "text", ALLOWED) from exc
    if isinstance(wire.verbosity, Raw) and not is_null(wire.verbosity):
        extra["verbosity"] = wire.verbosity
    extra |= {f"text.{name}": one for name, one in unknown_fields(raw, Text).items()}
    return UNSET if wire.format is None else _format(wire.format)


def _format(wire: TextFormat) -> ResponseFormat:
    if wire.type != "json_schema":
        return ResponseFormat(type=wire.type)
    if wire.schema is UNSET or not is_object(wire.schema):
        field = "text.format.schema"
        raise InvalidRequest(f"{field} must be a JSON schema, which is an object", param=field)
    return ResponseFormat(
        type="json_schema",
        name=UNSET if wire.name is None else wire.name,
        description=UNSET if wire.description is None else wire.description,
        schema=wire.schema,
        strict=UNSET if wire.strict is None else wire.strict,
    )


def read_effort(raw: Raw | UnsetType, extra: dict[str, Raw]) -> str | UnsetType:
    """Return the effort. What the schema does not have goes to `extra`. Raises InvalidRequest."""
    if raw is UNSET or is_null(raw):
        return UNSET
    wire = read_reasoning(raw)
    extra |= {f"reasoning.{name}": one for name, one in unknown_fields(raw, Reasoning).items()}
    return UNSET if wire.effort is None else wire.effort


def read_reasoning(raw: Raw) -> Reasoning:
    """Raises InvalidRequest."""
    try:
        return _reasoning.decode(raw)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, "reasoning", ALLOWED) from exc
