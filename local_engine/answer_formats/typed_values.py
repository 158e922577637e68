"""Give the arguments of formats without JSON the types that the function's schema demands."""

import json
from collections.abc import Mapping
from typing import cast

import msgspec

from strowger_gateway.local_engine.answer_formats.loose_values import (
    Loose,
    Malformed,
    loose_value,
    written,
)

Schema = Mapping[str, object]

_PYTHON = Loose(python=True)
_KINDS: tuple[tuple[str, type], ...] = (
    ("boolean", bool),
    ("integer", int),
    ("number", int | float),  # pyright: ignore[reportAssignmentType]  # a union is a class to isinstance
    ("array", list),
    ("object", dict),
    ("null", type(None)),
)
_DEEPEST = 8
"""References followed."""
_MOST = 64
"""Schemas with alternatives that are looked into for one argument."""


def typed(text: str, name: str, schema: Schema) -> str:
    """Return an argument as JSON.

    text: as the model wrote it. name: of the argument. schema: of all arguments.
    An argument that the schema does not describe, or whose type the text does not have, is JSON if
    it reads as such, else a string.
    """
    properties = schema.get("properties")
    part = cast(Schema, properties).get(name) if isinstance(properties, Mapping) else None
    kinds = kinds_of(part, schema)
    if kinds == ["string"]:
        return written(text)
    plain = text.strip()
    if "null" in kinds and plain in {"null", "None"}:
        return "null"
    for kind in kinds or ["object", "array", "boolean", "number", "null"]:
        if kind == "string":
            break
        found = _read(plain, kind)
        if found is not None:
            return found
    return written(text)


def kinds_of(part: object, root: Schema) -> list[str]:
    """Return the JSON types that a schema permits, in its order; none if it does not restrict."""
    return _kinds(part, root, [])


def resolved(part: object, root: Schema) -> Schema:
    """Return the schema that a local reference names, or the schema itself."""
    for _ in range(_DEEPEST):
        if not isinstance(part, Mapping):
            return {}
        schema = cast(Schema, part)
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        part = root
        for step in reference[2:].split("/"):
            place = step.replace("~1", "/").replace("~0", "~")
            part = cast(Schema, part).get(place) if isinstance(part, dict) else None
    return {}


def _kinds(part: object, root: Schema, seen: list[Schema]) -> list[str]:
    """seen: schemas with alternatives, which may refer to themselves."""
    schema = resolved(part, root)
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [str(one) for one in cast(list[object], kind)]
    if "const" in schema:
        return [_kind_of(schema["const"])]
    values = schema.get("enum")
    if isinstance(values, list):
        return [_kind_of(value) for value in cast(list[object], values)]
    for key in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(key)
        if isinstance(parts, list):
            if len(seen) >= _MOST or any(one is schema for one in seen):
                return []
            seen.append(schema)
            found = [kind for one in cast(list[object], parts) for kind in _kinds(one, root, seen)]
            return list(dict.fromkeys(found))
    if "properties" in schema:
        return ["object"]
    return ["array"] if "items" in schema else []


def _kind_of(value: object) -> str:
    return next((name for name, type_ in _KINDS if isinstance(value, type_)), "string")


def _read(text: str, kind: str) -> str | None:
    """Return the text as JSON of this type, or `None`."""
    wanted = dict(_KINDS).get(kind)
    if wanted is None:
        return None
    try:
        value = msgspec.json.decode(text)
        exact = True
    except (msgspec.DecodeError, RecursionError):
        exact = False
        try:
            value = loose_value(text, _PYTHON)
        except Malformed:
            return None
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return str(int(value))
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "boolean"):
        return None
    return text if exact else json.dumps(value, ensure_ascii=False)
