"""A function whose parameters have several forms, at a vendor whose functions take one object.

MCP servers describe alternatives with `anyOf` at the top, and schema libraries write a reference
there. Claude and OpenAI's models refuse the tool for that, and so every request that offers it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

import msgspec
from msgspec import DecodeError, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import json_of, read_json, with_parameters
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import TOOLS
from strowger_gateway.schemas.messages import FunctionTool, Message, Tool
from strowger_gateway.schemas.requests import ChatRequest, Request

Schema = Mapping[str, object]

_ASK: Final = (Message(role="user", content="What is the weather?"),)
_FORMS: Final = ("allOf", "anyOf", "oneOf")
_WORDS: Final = ("$ref", "const", "enum", "not")
"""Keywords that say of the whole object which it may be."""
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
    if any(name in fields for name in (*_FORMS, *_WORDS)):
        return True
    if any(fields.get(name) == _NULL for name in _EMPTY):
        return True
    return bytes(memoryview(fields.get("type", _TEXT))[:1]) != b'"'


def flattened(schema: Schema) -> Schema | None:
    """Return one object with the properties of all forms; `None` if the schema is that already.

    What only some forms require is said in the description.
    """
    worded = any(name in schema for name in _WORDS)
    if worded:
        schema = _without_words(schema)
    forms = [name for name in _FORMS if isinstance(schema.get(name), list)]
    kept = {name: value for name, value in schema.items() if name not in forms}
    found: dict[str, object] = {}
    typed = forms or worded or not isinstance(kept.get("type", ""), str)
    if kept.get("type") != "object" and typed:
        found["type"] = "object"
    found |= {name: _EMPTY[name]() for name in _EMPTY if name in kept and kept[name] is None}
    if not forms:
        return {**kept, **found} if found or worded else None
    return {**kept, **found, **_merged(schema, forms)}


def _without_words(schema: Schema) -> Schema:
    """Return the schema with what its reference stands for, and without other `_WORDS`."""
    kept = {name: value for name, value in schema.items() if name not in _WORDS}
    target = _referred(schema, schema.get("$ref"))
    return {**{name: one for name, one in target.items() if name not in _WORDS}, **kept}


def _merged(schema: Schema, forms: list[str]) -> Schema:
    properties = dict(_object(schema.get("properties")))
    required = list(_texts(schema.get("required")))
    told: list[str] = []
    for name in forms:
        alternatives: list[list[str]] = []
        for form in _forms_in(schema, name):
            for key, value in _object(form.get("properties")).items():
                properties[key] = _either(properties.get(key), value)
            alternatives.append(list(_texts(form.get("required"))))
        every = name == "allOf"
        required += [
            one
            for one in dict.fromkeys(one for each in alternatives for one in each)
            if one not in required and (every or all(one in each for each in alternatives))
        ]
        if not every and any(alternatives):
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
        yield _referred(schema, form["$ref"]) if "$ref" in form else form


def _referred(schema: Schema, reference: object) -> Schema:
    """Return what a reference inside the schema stands for."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return _NOTHING
    place: object = schema
    for step in reference[2:].split("/"):
        place = _object(place).get(step)
    return _object(place)


def _either(known: object, value: object) -> object:
    """Return a property that fits either of two forms which both have it, as a name of a kind."""
    if known is None or known == value:
        return value
    options = _object(known).get("anyOf") if list(_object(known)) == ["anyOf"] else None
    several = cast("list[object]", options) if isinstance(options, list) else [known]
    return known if value in several else {"anyOf": [*several, value]}


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
