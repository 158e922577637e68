"""Google's own form of a JSON schema, as JSON Schema.

A subset of OpenAPI 3.0's: types in capitals, `nullable`, counts as strings.
https://ai.google.dev/api/caching#Schema
"""

from collections.abc import Mapping
from typing import Final, cast

from msgspec import Raw

from strowger_gateway.gateway.surfaces.gemini.proto import camel
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.measured_json import NotJson, decoded

_Object = dict[str, object]

_COUNTS: Final = frozenset(
    {"maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"}
)
_RENAMED: Final[Mapping[str, str]] = {"ref": "$ref", "defs": "$defs", "example": "examples"}
_DEFS: Final = "#/defs/"
"""Begins references to `defs`, which are `$defs` in JSON Schema."""

_SCHEMAS: Final = frozenset({"items", "additionalProperties"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_MAPS: Final = frozenset({"properties", "defs", "$defs"})
_OURS: Final = frozenset({"nullable", "propertyOrdering", "type", "format"})
_UNSPECIFIED: Final = "type_unspecified"
_NOT_FORMATS: Final = frozenset({"enum", "float", "double", "int32", "int64"})
"""Formats that JSON Schema does not have; some vendors refuse them."""


def json_schema(raw: Raw, where: str) -> Raw:
    """Return a schema of Google's as JSON Schema. where: its path. Raises InvalidRequest."""
    try:
        found = decoded(raw)
    except NotJson as exc:
        raise InvalidRequest(f"{where} is nested too deeply", param=where) from exc
    if not isinstance(found, dict):
        raise InvalidRequest(f"{where} must be a schema, which is an object", param=where)
    return Raw(encode(_schema(cast("_Object", found))))


def _schema(source: object) -> object:
    if not isinstance(source, dict):
        return source
    fields = {camel(name): one for name, one in cast("_Object", source).items() if one is not None}
    made: _Object = {}
    kind = _type(fields)
    if kind is not None:
        made["type"] = kind
    if (form := fields.get("format")) is not None and form not in _NOT_FORMATS:
        made["format"] = form
    for name, value in fields.items():
        if name in _OURS:
            continue
        made[_RENAMED.get(name, name)] = _value(name, value)
    if fields.get("nullable") is True and isinstance(made.get("enum"), list):
        made["enum"] = [*cast("list[object]", made["enum"]), None]
    if fields.get("nullable") is True and kind is None and "$ref" in made:
        made["anyOf"] = [{"$ref": made.pop("$ref")}, *cast("list[object]", made.get("anyOf", []))]
    if fields.get("nullable") is True and kind is None and "anyOf" in made:
        made["anyOf"] = [*cast("list[object]", made["anyOf"]), {"type": "null"}]
    return made


def _type(fields: _Object) -> object:
    kind = fields.get("type")
    if isinstance(kind, list):
        return [one.lower() if isinstance(one, str) else one for one in cast("list[object]", kind)]
    if not isinstance(kind, str) or kind.lower() == _UNSPECIFIED:
        return None
    kind = kind.lower()
    return [kind, "null"] if fields.get("nullable") is True and kind != "null" else kind


def _value(name: str, value: object) -> object:
    if name in _SCHEMAS:
        return _schema(value)
    if name in _LISTS and isinstance(value, list):
        return [_schema(one) for one in cast("list[object]", value)]
    if name in _MAPS and isinstance(value, dict):
        return {key: _schema(one) for key, one in cast("_Object", value).items()}
    if name in _COUNTS and isinstance(value, str) and value.isdecimal():
        return int(value)
    if name == "example":
        return [value]
    if name == "ref" and isinstance(value, str) and value.startswith(_DEFS):
        return f"#/$defs/{value.removeprefix(_DEFS)}"
    return value
