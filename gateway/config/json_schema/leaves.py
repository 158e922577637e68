"""The JSON Schema of one text, number, boolean or choice in config.yaml."""

from collections.abc import Mapping
from typing import Annotated, Literal, cast, get_args, get_origin

import msgspec

from strowger_gateway.adapters.base import Range
from strowger_gateway.gateway.config.type_names import Kind
from strowger_gateway.schemas.secret import Secret

Schema = Mapping[str, object]

NULL: Schema = {"type": "null"}
_REFERENCE: Schema = {"$ref": "#/definitions/reference"}
_GROUPED: Schema = {"$ref": "#/definitions/grouped_integer"}
_SIZE: Schema = {"$ref": "#/definitions/size"}
_INTEGER_KEYS = "^-?(0|[1-9][0-9]*)$"

DEFINITIONS: Schema = {
    "reference": {
        "description": "a text with ${NAME}, ${NAME:-default} or ${file:/path}",
        "type": "string",
        "pattern": r"(^|[^$])\$\{(file:[^{}]*|[A-Za-z_][A-Za-z0-9_]*(:-[^{}]*)?)\}",
    },
    "grouped_integer": {
        "description": "an integer with underscores, which parsers of editors read as text",
        "type": "string",
        "pattern": "^[-+]?[0-9]+(_[0-9]+)+$",
    },
    "size": {
        "description": "bytes with a unit, such as 512KiB, 512MiB or 2GiB",
        "type": "string",
        "pattern": r"^[0-9]+(\.[0-9]+)? ?[KMG]iB$",
    },
}


def leaf_schemas(kind: Kind) -> tuple[Schema, ...]:
    """Return the alternatives of a value that is not a list or a mapping, `null` excepted."""
    found: list[Schema] = []
    referable = False
    for member in kind.members:
        if member is Secret:
            return ({"type": "string"},)
        schema = _msgspec_schema(member)
        if schema is None:
            continue
        found.append(schema)
        referable |= schema != {"type": "string"}
        if schema.get("type") in ("integer", "number"):
            found.append(_GROUPED)
    if "size" in kind.extra:
        found.append(_SIZE)
    return (*found, _REFERENCE) if referable else tuple(found)


def any_of(*alternatives: Schema) -> Schema:
    """Return one schema for several; `null` is merged into the type of a single other one."""
    first, *others = alternatives
    if not others:
        return first
    if others == [NULL] and isinstance(first.get("type"), str):
        return {**first, "type": [first["type"], "null"]}
    return {"anyOf": list(alternatives)}


def bounded(schema: Schema, bounds: Range) -> Schema:
    """Return the schema of a number with its bounds; other schemas as they are."""
    if schema.get("type") not in ("integer", "number"):
        return schema
    named = {
        "minimum": bounds.minimum,
        "exclusiveMinimum": bounds.above,
        "maximum": bounds.maximum,
        "exclusiveMaximum": bounds.below,
    }
    return {**schema, **{name: bound for name, bound in named.items() if bound is not None}}


def keys_schema(key: Kind) -> Schema:
    """Return what restricts the keys of a mapping, which YAML reads as text."""
    return {"propertyNames": {"pattern": _INTEGER_KEYS}} if int in key.bare else {}


def _msgspec_schema(member: object) -> Schema | None:
    """Return msgspec's schema of a leaf; `None` for a Struct, without its description."""
    bare = get_args(member)[0] if get_origin(member) is Annotated else member
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        return None
    if get_origin(bare) is Literal:
        return {"enum": list(get_args(bare))}  # in the order of the code; msgspec sorts them
    (schema,), _ = msgspec.json.schema_components((member,))
    return {
        name: value
        for name, value in cast("dict[str, object]", schema).items()
        if name != "description"
    }
