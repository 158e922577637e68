"""A function whose parameters have several forms, at a vendor whose functions take one object.

MCP servers describe alternatives with `anyOf` at the top, which Claude refuses for the tool and so
for every request that offers it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

import msgspec
from msgspec import DecodeError, Raw
from msgspec.structs import replace

from adapters.repairs.rewriting import json_of, read_json, with_parameters
from adapters.repairs.rule import Aim, Repair, Repaired, every_model
from schemas.content_facts import TOOLS
from schemas.messages import FunctionTool, Message, Tool
from schemas.requests import ChatRequest, Request

Schema = Mapping[str, object]

_ASK: Final = (Message(role="user", content="What is the weather?"),)
_FORMS: Final = ("allOf", "anyOf", "oneOf")
_NOTHING: Final[Schema] = {}
_EMPTY: Final[Mapping[str, Callable[[], object]]] = {"properties": dict, "required": list}
_TEXT: Final = Raw(b'"object"')
_NULL: Final = Raw(b"null")

_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def _flat(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not request.tools:
        return None
    tools = tuple([_flat_tool(one) for one in request.tools])
    if all(new is old for new, old in zip(tools, request.tools, strict=True)):
        return None
    return Repaired(request=replace(request, tools=tools), changed=("tools[].function.parameters",))


def _flat_tool(one: Tool) -> Tool:
    if not isinstance(one, FunctionTool) or not isinstance(one.parameters, Raw):
        return one
    try:
        fields = _members(one.parameters)
        if not _may_have_forms(fields):
            return one
        schema = read_json(one.parameters)
    except (DecodeError, RecursionError):
        return one
    found = flattened(cast("Schema", schema))
    return one if found is None else with_parameters(one, json_of(found))


def _may_have_forms(fields: Mapping[str, Raw]) -> bool:
    """Return whether a schema has to be read: clients offer many functions with every request."""
    if any(name in fields for name in _FORMS):
        return True
    if any(fields.get(name) == _NULL for name in _EMPTY):
        return True
    return bytes(memoryview(fields.get("type", _TEXT))[:1]) != b'"'


def flattened(schema: Schema) -> Schema | None:
    """Return one object with the properties of all forms; `None` if the schema is that already.

    What only some forms require is said in the description.
    """
    forms = [name for name in _FORMS if isinstance(schema.get(name), list)]
    kept = {name: value for name, value in schema.items() if name not in forms}
    found: dict[str, object] = {}
    if kept.get("type") != "object" and (forms or not isinstance(kept.get("type", ""), str)):
        found["type"] = "object"
    found |= {name: _EMPTY[name]() for name in _EMPTY if name in kept and kept[name] is None}
    if not forms:
        return {**kept, **found} if found else None
    return {**kept, **found, **_merged(schema, forms)}


def _merged(schema: Schema, forms: list[str]) -> Schema:
    properties = dict(_object(schema.get("properties")))
    required = list(_texts(schema.get("required")))
    told: list[str] = []
    for name in forms:
        alternatives: list[list[str]] = []
        for form in _forms_in(schema, name):
            for key, value in _object(form.get("properties")).items():
                properties.setdefault(key, value)
            alternatives.append(list(_texts(form.get("required"))))
        if name == "allOf":
            required += [one for each in alternatives for one in each if one not in required]
        elif any(alternatives):
            sets = [f"[{', '.join(each)}]" for each in alternatives]
            told.append(f"Required are {' or '.join(sets)}.")
    found: dict[str, object] = {"type": "object", "properties": properties}
    if required:
        found["required"] = required
    if told:
        before = schema.get("description")
        found["description"] = "\n\n".join(
            [*([before] if isinstance(before, str) and before else []), *told]
        )
    return found


def _forms_in(schema: Schema, name: str) -> Iterator[Schema]:
    """Yield the forms of a keyword, each in place of a reference to it."""
    for one in cast("list[object]", schema[name]):
        form = _object(one)
        reference = form.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            place: object = schema
            for step in reference[2:].split("/"):
                place = _object(place).get(step)
            form = _object(place)
        yield form


def _object(value: object) -> Schema:
    return cast("Schema", value) if isinstance(value, dict) else _NOTHING


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, list):
        yield from [one for one in cast("list[object]", value) if isinstance(one, str)]


def one_form(
    source: str, models: Callable[[str], bool] = every_model, example: str = "model-1"
) -> Repair:
    """Return the rule for a vendor whose functions take one object."""
    either = (
        b'{"type":"object","properties":{"a":{},"b":{}},'
        b'"anyOf":[{"required":["a"]},{"required":["b"]}]}'
    )
    tool = FunctionTool(name="weather", parameters=Raw(either))
    return Repair(
        name="one_form",
        about="merges the forms of a function's parameters into one object",
        source=source,
        facts=TOOLS,
        apply=_flat,
        example=ChatRequest("m", _ASK, tools=(tool,)),
        example_model=example,
        loss="hint",
        models=models,
        light=True,
    )
