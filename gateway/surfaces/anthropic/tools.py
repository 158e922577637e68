"""Parse tools, the tool choice, and what determines how the model thinks and answers."""

from typing import Final, Literal

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError

from strowger_gateway.gateway.surfaces.anthropic.blocks import DIALECT
from strowger_gateway.gateway.surfaces.anthropic.wire import (
    ALLOWED,
    CustomTool,
    Output,
    Thinking,
    ToolChoiceWire,
)
from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null, is_object
from strowger_gateway.gateway.surfaces.marked_objects import TypedReader, with_marks
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    FunctionTool,
    OpaqueTool,
    ResponseFormat,
    Tool,
    ToolChoice,
)

_reader: Final = TypedReader[CustomTool](
    CustomTool, {"custom": CustomTool}, ALLOWED, default="custom"
)
_raws: Final = msgspec.json.Decoder(list[Raw])
_choice: Final = msgspec.json.Decoder(ToolChoiceWire)
_thinking: Final = msgspec.json.Decoder(Thinking)
_output: Final = msgspec.json.Decoder(Output)
_fields: Final = msgspec.json.Decoder(dict[str, Raw])

_MARKS: Final = (
    "cache_control",
    "allowed_callers",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
)
_MODES: Final[dict[str, Literal["auto", "required", "none"]]] = {
    "auto": "auto",
    "any": "required",
    "none": "none",
}

LOW: Final = 0.35
MEDIUM: Final = 0.65
"""Shares of `max_tokens` up to which a thinking budget is a low or a medium effort. Between the
shares that the adapters compute for these efforts, 20, 50 and 80 %."""


class _Type(Struct, frozen=True, kw_only=True):
    type: str | None = None


_type: Final = msgspec.json.Decoder(_Type)


class Tools(Struct, frozen=True, kw_only=True):
    """marked: some have fields that our schema does not have."""

    tools: tuple[Tool, ...] | UnsetType = UNSET
    choice: ToolChoice | UnsetType = UNSET
    parallel: bool | UnsetType = UNSET
    marked: bool = False


NO_TOOLS: Final = Tools()
"""Of a request without `tools` and `tool_choice`."""


def read_tools(tools: Raw | UnsetType, choice: Raw | UnsetType) -> Tools:
    """Raise InvalidRequest, also for a choice that no tool satisfies."""
    known: tuple[Tool, ...] | UnsetType = UNSET
    if isinstance(tools, Raw) and not is_null(tools):
        try:
            raws = _raws.decode(tools)
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, "tools", ALLOWED) from exc
        if raws:
            known = tuple([_tool(raw, f"tools[{place}]") for place, raw in enumerate(raws)])
    marked = known is not UNSET and any(
        isinstance(one, FunctionTool) and one.marks is not UNSET for one in known
    )
    if choice is UNSET or is_null(choice):
        return Tools(tools=known, marked=marked)
    try:
        chosen = _choice.decode(choice)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, "tool_choice", ALLOWED) from exc
    if known is UNSET:
        if chosen.type in ("any", "tool"):
            told = f"tool_choice: {chosen.type} needs at least one tool"
            raise InvalidRequest(told, param="tool_choice")
        return Tools(tools=known)
    return Tools(
        tools=known,
        choice=_read_choice(chosen, known),
        parallel=False if chosen.disable_parallel_tool_use else UNSET,
        marked=marked,
    )


def _read_choice(chosen: ToolChoiceWire, tools: tuple[Tool, ...]) -> ToolChoice:
    if chosen.type != "tool":
        return ToolChoice(mode=_MODES[chosen.type])
    if not chosen.name:
        raise InvalidRequest("tool_choice.name is required", param="tool_choice.name")
    functions = [one.name for one in tools if isinstance(one, FunctionTool)]
    if chosen.name not in functions and len(functions) == len(tools):
        raise InvalidRequest(
            f"tool_choice.name: tools has no tool named {chosen.name}", param="tool_choice.name"
        )
    return ToolChoice(mode="named", name=chosen.name)


def _tool(raw: Raw, where: str) -> Tool:
    wire, more = _reader.read(raw, where)
    if isinstance(wire, str):
        return OpaqueTool(type=wire, raw=raw, dialect=DIALECT)
    if not is_object(wire.input_schema):
        field = f"{where}.input_schema"
        raise InvalidRequest(f"{field} must be a JSON schema, which is an object", param=field)
    return FunctionTool(
        name=wire.name,
        description=UNSET if wire.description is None else wire.description,
        parameters=wire.input_schema,
        strict=UNSET if wire.strict is None else wire.strict,
        marks=with_marks(more, **{name: getattr(wire, name) for name in _MARKS}),
    )


class Effort(Struct, frozen=True, kw_only=True):
    """more: members of `thinking` and `output_config` that only Anthropic has, by field."""

    effort: str | UnsetType = UNSET
    form: ResponseFormat | UnsetType = UNSET
    more: dict[str, Raw]


NO_EFFORT: Final = Effort(more={})
"""Of a request without `thinking` and `output_config`. Nothing writes to its `more`."""


def read_effort(thinking: Raw | UnsetType, output: Raw | UnsetType, max_tokens: int) -> Effort:
    """Return the effort and the format of the answer. Raises InvalidRequest."""
    more: dict[str, Raw] = {}
    effort: str | UnsetType = UNSET
    form: ResponseFormat | UnsetType = UNSET
    if isinstance(thinking, Raw) and not is_null(thinking):
        effort = _read_thinking(thinking, max_tokens, more)
    if isinstance(output, Raw) and not is_null(output):
        try:
            wire, fields = _output.decode(output), _fields.decode(output)
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, "output_config", ALLOWED) from exc
        if wire.effort is not None:
            effort = wire.effort
        if wire.format is not None:
            form = ResponseFormat(type="json_schema", schema=wire.format.schema)
        others = {n: raw for n, raw in fields.items() if n not in Output.__struct_fields__}
        if others:
            more["output_config"] = Raw(encode(others))
    return Effort(effort=effort, form=form, more=more)


def thinking_budget(thinking: Raw | UnsetType) -> int:
    """Return the tokens of a budget; 0 if there is none, or if it is invalid."""
    if not isinstance(thinking, Raw):
        return 0
    try:
        return _thinking.decode(thinking).budget_tokens or 0
    except (DecodeError, RecursionError):
        return 0


def _read_thinking(raw: Raw, max_tokens: int, more: dict[str, Raw]) -> str | UnsetType:
    """Return the effort that a budget is worth; `UNSET` if the model decides."""
    try:
        wire = _thinking.decode(raw)
    except ValidationError as exc:
        try:
            kind = _type.decode(raw).type
        except (DecodeError, RecursionError):
            kind = None
        if kind is None:
            raise invalid_request(exc, "thinking", ALLOWED) from exc
        more["thinking"] = raw
        return UNSET
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, "thinking", ALLOWED) from exc
    match wire.type:
        case "enabled":
            if wire.budget_tokens is None:
                field = "thinking.budget_tokens"
                raise InvalidRequest(f"{field} is required", param=field)
            share = wire.budget_tokens / max_tokens
            return "low" if share <= LOW else "medium" if share <= MEDIUM else "high"
        case "adaptive":
            return UNSET
        case _:  # also disabled, which not every backend has a word for
            more["thinking"] = raw
            return UNSET
