"""Parse tools, and which of them the model has to call.

https://ai.google.dev/api/caching#Tool
https://ai.google.dev/api/caching#ToolConfig
"""

from collections.abc import Collection
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import (
    UNREADABLE,
    invalid_request,
    is_object,
    null_to_unset,
)
from strowger_gateway.gateway.surfaces.gemini.json_schemas import json_schema
from strowger_gateway.gateway.surfaces.gemini.parts import DIALECT
from strowger_gateway.gateway.surfaces.gemini.proto import (
    ProtoReader,
    as_list,
    object_fields,
    snake,
)
from strowger_gateway.gateway.surfaces.gemini.wire import ALLOWED, CallingWire, DeclarationWire
from strowger_gateway.gateway.surfaces.marked_objects import Marks, with_marks
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import FunctionTool, OpaqueTool, Tool, ToolChoice

FUNCTIONS: Final = "functionDeclarations"
CONFIG: Final = "toolConfig"
CALLING: Final = "functionCallingConfig"
SEARCH: Final = "google_search"

_SEARCHES: Final = frozenset({"google_search", "google_search_retrieval", "enterprise_web_search"})
_FLAT: Final = frozenset({SEARCH, "code_execution", "google_maps", "url_context"})
"""Tools whose settings are members of the tool itself, as vendors of other APIs write them."""

_MARKS: Final = ("response", "response_json_schema", "behavior")
_MODES: Final[dict[str, Literal["auto", "required", "none"]]] = {
    "": "auto",
    "mode_unspecified": "auto",
    "auto": "auto",
    "validated": "auto",
    "any": "required",
    "none": "none",
}
_DECLARATIONS: Final = ProtoReader(DeclarationWire, ALLOWED)
_CALLING: Final = ProtoReader(CallingWire, ALLOWED, lists={"allowedFunctionNames"})
_raws: Final = msgspec.json.Decoder(list[Raw])


class DeclaredTools(Struct, frozen=True, kw_only=True):
    """marked: some have fields that our schema does not have.

    more: members of `toolConfig` that only Google has. places: the client's path of each tool.
    """

    tools: tuple[Tool, ...] | UnsetType = UNSET
    choice: ToolChoice | UnsetType = UNSET
    marked: bool = False
    more: Marks = {}
    places: tuple[str, ...] = ()


NO_TOOLS: Final = DeclaredTools()
"""Of a request without `tools` and `toolConfig`."""


def read_tools(tools: Raw | UnsetType, config: Raw | UnsetType) -> DeclaredTools:
    """Raise InvalidRequest, also for a choice that no tool satisfies."""
    found: list[Tool] = []
    places: list[str] = []
    raw = null_to_unset(tools)
    if isinstance(raw, Raw):
        try:
            raws = _raws.decode(as_list(raw))
        except UNREADABLE as exc:
            raise invalid_request(exc, "tools", ALLOWED) from exc
        for at, one in enumerate(raws):
            _add_tools(object_fields(one, f"tools[{at}]"), f"tools[{at}]", found, places)
    calling, more = _read_config(config)
    choice, allowed = _read_choice(calling, found)
    if allowed:
        kept = [
            (one, place)
            for one, place in zip(found, places, strict=True)
            if not isinstance(one, FunctionTool) or one.name in allowed
        ]
        found, places = [one for one, _ in kept], [place for _, place in kept]
    return DeclaredTools(
        tools=tuple(found) or UNSET,
        choice=choice if found else UNSET,
        marked=any(isinstance(one, FunctionTool) and one.marks is not UNSET for one in found),
        more=more,
        places=tuple(places),
    )


def _add_tools(fields: Marks, where: str, found: list[Tool], places: list[str]) -> None:
    """Add the functions of one entry, and each tool that Google runs as one of its own."""
    for name, raw in fields.items():
        if name == FUNCTIONS:
            try:
                raws = _raws.decode(as_list(raw))
            except UNREADABLE as exc:
                raise invalid_request(exc, f"{where}.{name}", ALLOWED) from exc
            for at, one in enumerate(raws):
                path = f"{where}.{name}[{at}]"
                found.append(_function(one, path))
                places.append(path)
            continue
        kind = snake(name)
        kind = SEARCH if kind in _SEARCHES else kind
        settings = {name: raw}
        if kind in _FLAT and is_object(raw):
            settings = object_fields(raw, f"{where}.{name}")
        tool = Raw(encode({"type": kind, **settings}))
        found.append(OpaqueTool(type=kind, raw=tool, dialect=DIALECT))
        places.append(f"{where}.{name}")


def _function(raw: Raw, where: str) -> FunctionTool:
    wire, more = _DECLARATIONS.read(raw, where)
    schema: Raw | UnsetType = null_to_unset(wire.parameters_json_schema)
    if isinstance(schema, Raw):
        if not is_object(schema):
            field = f"{where}.parametersJsonSchema"
            raise InvalidRequest(f"{field} must be a JSON schema, an object", param=field)
    elif isinstance(found := null_to_unset(wire.parameters), Raw):
        schema = json_schema(found, f"{where}.parameters")
    marks = {_CAMEL[name]: getattr(wire, name) for name in _MARKS}
    return FunctionTool(
        name=wire.name,
        description=UNSET if wire.description is None else wire.description,
        parameters=schema,
        marks=with_marks(more, **marks),
    )


_CAMEL: Final = {
    "response": "response",
    "response_json_schema": "responseJsonSchema",
    "behavior": "behavior",
}


def _read_config(config: Raw | UnsetType) -> tuple[CallingWire, Marks]:
    raw = null_to_unset(config)
    if not isinstance(raw, Raw):
        return CallingWire(), {}
    fields = object_fields(raw, CONFIG)
    calling = fields.pop(CALLING, None)
    if calling is None:
        return CallingWire(), fields
    wire, _ = _CALLING.read(calling, f"{CONFIG}.{CALLING}")
    return wire, fields


def _read_choice(
    calling: CallingWire, tools: Collection[Tool]
) -> tuple[ToolChoice | UnsetType, Collection[str]]:
    """Return the choice, and the functions that alone may be called; () for all."""
    field = f"{CONFIG}.{CALLING}"
    mode = _MODES.get((calling.mode or "").lower())
    if mode is None:
        told = f"{field}.mode must be one of AUTO, ANY, NONE, VALIDATED"
        raise InvalidRequest(told, param=f"{field}.mode")
    allowed = calling.allowed_function_names or ()
    functions = {one.name for one in tools if isinstance(one, FunctionTool)}
    for place, name in enumerate(allowed):
        if name not in functions:
            path = f"{field}.allowedFunctionNames[{place}]"
            raise InvalidRequest(f"{path}: tools has no function named {name}", param=path)
    if mode == "required" and not functions:
        told = f"{field}.mode: ANY needs at least one function"
        raise InvalidRequest(told, param=f"{field}.mode")
    if mode == "none" or not calling.mode:
        return (ToolChoice(mode="none") if mode == "none" else UNSET), ()
    if mode == "required" and len(allowed) == 1:
        return ToolChoice(mode="named", name=allowed[0]), ()
    return ToolChoice(mode=mode), frozenset(allowed)
