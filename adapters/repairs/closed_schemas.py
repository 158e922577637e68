"""Rules for vendors that compile the schemas of answers and of strict functions to a grammar."""

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.json_schemas import formed, unbounded
from strowger_gateway.adapters.repairs.rewriting import with_parameters, with_schema
from strowger_gateway.adapters.repairs.rule import Loss, Repair, Repaired
from strowger_gateway.schemas.content_facts import FORMAT, STRICT_TOOLS
from strowger_gateway.schemas.messages import FunctionTool, Message, ResponseFormat, Tool
from strowger_gateway.schemas.requests import ChatRequest, Request

Change = Callable[[Raw], Raw | None]

_SCHEMA: Final = "response_format.json_schema.schema"
_PARAMETERS: Final = "tools[].function.parameters"


def _apply(request: Request, change: Change) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    changed: list[str] = []
    form = request.response_format
    if isinstance(form, ResponseFormat) and form.type == "json_schema":
        schema = change(form.schema) if isinstance(form.schema, Raw) else None
        if schema is not None:
            form = with_schema(form, schema)
            changed.append(_SCHEMA)
    tools: tuple[Tool, ...] | UnsetType = request.tools
    if tools:
        tools = tuple([_strict(one, change) for one in tools])
        if all(new is old for new, old in zip(tools, request.tools or (), strict=True)):
            tools = request.tools
        else:
            changed.append(_PARAMETERS)
    if not changed:
        return None
    return Repaired(
        request=replace(request, response_format=form, tools=tools), changed=tuple(changed)
    )


def _strict(one: Tool, change: Change) -> Tool:
    if not isinstance(one, FunctionTool) or one.strict is not True or one.parameters is UNSET:
        return one
    schema = change(one.parameters)
    return one if schema is None else with_parameters(one, schema)


def _rule(name: str, about: str, source: str, change: Change, loss: Loss, example: bytes) -> Repair:
    return Repair(
        name=name,
        about=f"{about} in the schemas of answers and strict functions",
        source=source,
        facts=FORMAT | STRICT_TOOLS,
        apply=lambda request, _: _apply(request, change),
        example=ChatRequest(
            "m",
            (Message(role="user", content="Rate it."),),
            response_format=ResponseFormat(type="json_schema", name="x", schema=Raw(example)),
        ),
        loss=loss,
    )


def closed_schemas(source: str) -> tuple[Repair, Repair]:
    """Return the rules: one for the form of a schema, and one for constraints that are omitted."""
    return (
        _rule(
            "schema_form",
            "closes objects and writes `oneOf` as `anyOf`",
            source,
            formed,
            "none",
            b'{"type":"object","properties":{"n":{"oneOf":[{"type":"integer"}]}}}',
        ),
        _rule(
            "schema_keywords",
            "moves bounds and other keywords that the grammar lacks into descriptions",
            source,
            unbounded,
            "constraint",
            b'{"type":"object","properties":{"n":{"type":"integer","minimum":1}},'
            b'"additionalProperties":false}',
        ),
    )
