"""JSON schemas as a decoder with a compiled grammar takes them: closed objects and no bounds.

Such a vendor refuses a schema with a keyword that its grammar cannot express. The keyword moves
into the description, where the model reads it, as the vendor's own clients do it. Schemas of
pydantic and zod have one for every bound of a number and for every dictionary.
https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, cast

import msgspec
from msgspec import DecodeError, Raw

from strowger_gateway.adapters.repairs.rewriting import json_of, read_json

Schema = dict[str, object]

FORMATS: Final = frozenset(
    {
        "date",
        "date-time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "time",
        "uri",
        "uuid",
    }
)
_KEPT: Final = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "default",
        "definitions",
        "description",
        "enum",
        "format",
        "items",
        "minItems",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
    }
)
_NOTES: Final = frozenset(
    {"$anchor", "$comment", "$id", "$schema", "deprecated", "nullable", "readOnly", "writeOnly"}
)
"""Keywords that constrain nothing. `nullable` is OpenAPI's, and becomes a type."""
_LITTLE: Final = frozenset({"allOf", "default", "description", "title"})

_MAPS: Final = ("$defs", "definitions", "properties")
_LISTS: Final = ("allOf", "anyOf")
_NOT_REGULAR: Final = re.compile(r"\(\?|\\[bBpPkKGzZA1-9]|\{\d{3,}|\{\d*,\d{3,}|\{\d+,\}")
"""In patterns: lookarounds, word boundaries, classes of Unicode, backreferences, and repetitions
that the grammar does not take."""

_DEEPEST: Final = 64
_encode = msgspec.json.Encoder().encode


def formed(schema: Raw) -> Raw | None:
    """Return the same constraints in a form that the grammar takes; `None` if it has that form.

    Objects are closed, `oneOf` becomes `anyOf`, an `allOf` of one schema that schema, and comments
    are omitted.
    """
    return _changed(schema, _formed)


def unbounded(schema: Raw) -> Raw | None:
    """Return a schema without the constraints that the grammar lacks; `None` if it has none."""
    return _changed(schema, _unbounded)


def _changed(schema: Raw, change: Callable[[Schema], Schema]) -> Raw | None:
    try:
        before = read_json(schema)
        after = _everywhere(before, change, 0)
    except (DecodeError, RecursionError):
        return None
    return None if _encode(after) == _encode(before) else json_of(after)


def _everywhere(value: object, change: Callable[[Schema], Schema], depth: int) -> object:
    """Change a schema and all schemas in it. Raises RecursionError if it is nested too deeply."""
    if depth > _DEEPEST:
        raise RecursionError
    if not isinstance(value, dict):
        return value
    schema = change(dict(cast("Schema", value)))
    for name in _MAPS:
        inner = schema.get(name)
        if isinstance(inner, dict):
            named = cast("Schema", inner)
            schema[name] = {k: _everywhere(one, change, depth + 1) for k, one in named.items()}
    for name in _LISTS:
        inner = schema.get(name)
        if isinstance(inner, list):
            listed = cast("list[object]", inner)
            schema[name] = [_everywhere(one, change, depth + 1) for one in listed]
    if "items" in schema:
        schema["items"] = _everywhere(schema["items"], change, depth + 1)
    return schema


def _formed(schema: Schema) -> Schema:
    if "$ref" in schema:
        defs = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
        return {**defs, "$ref": schema["$ref"]}
    if schema.get("nullable") is True and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    for name in _NOTES & schema.keys():
        del schema[name]
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
    one_of = schema.get("oneOf")
    if isinstance(one_of, list) and "anyOf" not in schema:
        schema["anyOf"] = schema.pop("oneOf")
    all_of = schema.get("allOf")
    if isinstance(all_of, list) and len(cast("list[object]", all_of)) == 1:
        only = cast("list[object]", all_of)[0]
        if isinstance(only, dict) and schema.keys() <= _LITTLE:
            return _formed(dict(cast("Schema", only)))
    if "type" not in schema and isinstance(schema.get("properties"), dict):
        schema["type"] = "object"
    if "object" in _types(schema):
        schema.setdefault("properties", {})
        if not isinstance(schema.get("additionalProperties"), dict):
            schema["additionalProperties"] = False
    return schema


def _unbounded(schema: Schema) -> Schema:
    said: dict[str, object] = {}
    for name in schema.keys() - _KEPT:
        said[name] = schema[name]
    if isinstance(schema.get("additionalProperties"), dict):
        said["additionalProperties"] = schema["additionalProperties"]
    least = schema.get("minItems")
    if isinstance(least, int) and least > 1:
        said["minItems"] = least
    form, pattern, values = schema.get("format"), schema.get("pattern"), schema.get("enum")
    if isinstance(form, str) and form not in FORMATS:
        said["format"] = form
    if isinstance(pattern, str) and not _is_regular(pattern):
        said["pattern"] = pattern
    if isinstance(values, list):
        listed = cast("list[object]", values)
        if any(isinstance(one, list | dict) for one in listed):
            said["enum"] = listed
    if isinstance(schema.get("const"), list | dict):
        said["const"] = schema["const"]
    if not said:
        return schema
    kept = {name: value for name, value in schema.items() if name not in said}
    if "additionalProperties" in said:
        kept["additionalProperties"] = False
    if "minItems" in said:
        kept["minItems"] = 1
    if "prefixItems" in said and "items" not in kept:
        kept["items"] = {"anyOf": said["prefixItems"]}
    told = _described({name: said[name] for name in sorted(said)})
    known = kept.get("description")
    kept["description"] = f"{known}\n\n{told}" if isinstance(known, str) and known else told
    return kept


def _described(said: Mapping[str, object]) -> str:
    pairs = [f"{name}: {_text(value)}" for name, value in said.items()]
    return "{" + ", ".join(pairs) + "}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _is_regular(pattern: str) -> bool:
    if _NOT_REGULAR.search(pattern):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _types(schema: Schema) -> tuple[object, ...]:
    kind = schema.get("type")
    return tuple(cast("list[object]", kind)) if isinstance(kind, list) else (kind,)
