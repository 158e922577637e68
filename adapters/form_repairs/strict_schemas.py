"""Schemas that are to be enforced, in the form that OpenAI enforces, or not enforced.

With `strict` OpenAI takes only closed objects in which every property is required. Schema libraries
leave objects open and some properties optional: an open object is closed, but that a property is
optional cannot be said, so such a schema guides the answer without being enforced.
https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

from collections.abc import Callable
from typing import Final, cast

import msgspec
from msgspec import DecodeError, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.json_schemas import formed
from strowger_gateway.adapters.repairs.rewriting import with_members, with_parameters, with_schema
from strowger_gateway.adapters.repairs.rule import Aim, Loss, Repair, Repaired
from strowger_gateway.schemas.content_facts import FORMAT, STRICT_TOOLS
from strowger_gateway.schemas.messages import FunctionTool, Message, ResponseFormat, Tool
from strowger_gateway.schemas.requests import ChatRequest, Request

LACKING: Final = frozenset(
    """
    allOf contains contentMediaType dependentRequired dependentSchemas else if maxContains
    maxProperties minContains minProperties not oneOf patternProperties propertyNames then
    unevaluatedItems unevaluatedProperties uniqueItems
    """.split()  # noqa: SIM905  twenty quoted strings are harder to read
)
"""Keywords that are not enforced."""

_DEEPEST: Final = 64
_MAPS: Final = frozenset({"properties", "$defs", "definitions"})
_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Members that hold values instead of schemas."""

_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_object: Final = msgspec.json.Decoder(dict[str, object]).decode
_SCHEMA: Final = "response_format.json_schema"
_FUNCTION: Final = "tools[].function"
_OFF: Final = {"strict": False}

Rule = Callable[[Request, Aim], Repaired | None]


def is_strict(schema: Raw) -> bool:
    """Return whether OpenAI can enforce the schema."""
    try:
        value = _object(schema)
    except (DecodeError, RecursionError):
        return False
    return value.get("type") == "object" and _fits(value, 0)


def _fits(value: object, depth: int) -> bool:
    if depth > _DEEPEST:
        return False
    if isinstance(value, list):
        return all(_fits(one, depth + 1) for one in cast("list[object]", value))
    if not isinstance(value, dict):
        return True
    schema = cast("dict[str, object]", value)
    if not LACKING.isdisjoint(schema):
        return False
    properties = schema.get("properties")
    if isinstance(properties, dict):
        required = schema.get("required")
        named = set(cast("list[object]", required)) if isinstance(required, list) else set[object]()
        names = set(cast("dict[object, object]", properties))
        if schema.get("additionalProperties") is not False or names != named:
            return False
    elif schema.get("type") == "object":
        return False
    return all(
        _fits(_inside(name, inner), depth + 1)
        for name, inner in schema.items()
        if name not in _VALUES
    )


def _inside(name: str, value: object) -> object:
    """Return the schemas in a member: those of a map are in its values."""
    if name in _MAPS and isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return value


def _closed(schema: Raw) -> Raw | None:
    """Return the schema in the form that is enforced; `None` if it has none, or has it."""
    if is_strict(schema):
        return None
    found = formed(schema)
    return found if found is not None and is_strict(found) else None


def _with_closed(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    changes: dict[str, object] = {}
    paths: list[str] = []
    form = request.response_format
    if isinstance(form, ResponseFormat) and form.strict and isinstance(form.schema, Raw):
        schema = _closed(form.schema)
        if schema is not None:
            changes["response_format"] = with_schema(form, schema)
            paths.append(f"{_SCHEMA}.schema")
    tools = tuple([_with_closed_schema(one) for one in request.tools or ()])
    if any(new is not old for new, old in zip(tools, request.tools or (), strict=True)):
        changes["tools"] = tools
        paths.append(f"{_FUNCTION}.parameters")
    return Repaired(request=replace(request, **changes), changed=tuple(paths)) if paths else None


def _with_closed_schema(tool: Tool) -> Tool:
    if not isinstance(tool, FunctionTool) or not tool.strict:
        return tool
    schema = _closed(tool.parameters) if isinstance(tool.parameters, Raw) else None
    return tool if schema is None else with_parameters(tool, schema)


def _unenforced(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    changes: dict[str, object] = {}
    paths: list[str] = []
    form = request.response_format
    if isinstance(form, ResponseFormat) and form.strict and _is_open(form.schema):
        raw = form.raw
        if isinstance(raw, Raw):
            inner = with_members(_fields(raw)["json_schema"], _OFF)
            raw = with_members(raw, {"json_schema": inner})
        changes["response_format"] = replace(form, strict=False, raw=raw)
        paths.append(f"{_SCHEMA}.strict")
    tools = tuple([_loose(one) for one in request.tools or ()])
    if any(new is not old for new, old in zip(tools, request.tools or (), strict=True)):
        changes["tools"] = tools
        paths.append(f"{_FUNCTION}.strict")
    return Repaired(request=replace(request, **changes), changed=tuple(paths)) if paths else None


def _is_open(schema: object) -> bool:
    return isinstance(schema, Raw) and not is_strict(schema)


def _loose(tool: Tool) -> Tool:
    if not isinstance(tool, FunctionTool) or not tool.strict or not _is_open(tool.parameters):
        return tool
    raw = tool.raw
    if isinstance(raw, Raw):
        raw = with_members(raw, {"function": with_members(_fields(raw)["function"], _OFF)})
    return replace(tool, strict=False, raw=raw)


def strict_schemas(source: str) -> tuple[Repair, Repair]:
    """Return the rules for a vendor with OpenAI's limits. source: where it documents them."""

    def rule(name: str, about: str, apply: Rule, loss: Loss, schema: bytes) -> Repair:
        form = ResponseFormat(type="json_schema", name="x", schema=Raw(schema), strict=True)
        return Repair(
            name=name,
            about=about,
            source=source,
            facts=FORMAT | STRICT_TOOLS,
            apply=apply,
            example=ChatRequest("m", (Message(role="user", content="Hi"),), response_format=form),
            loss=loss,
        )

    return (
        rule(
            "strict_form",
            "closes the objects of strict schemas",
            _with_closed,
            "none",
            b'{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}',
        ),
        rule(
            "strict_off",
            "sends a strict schema that cannot be enforced without `strict`",
            _unenforced,
            "constraint",
            b'{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}',
        ),
    )
