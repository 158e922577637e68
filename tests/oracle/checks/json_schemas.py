"""What vendors read of a JSON schema where answers must follow it."""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from tests.oracle.reading import Faults, Json, entries, members

UNSUPPORTED: Final = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "patternProperties",
    }
)
_NAMED: Final = ("properties", "$defs", "definitions")
_SINGLE: Final = ("items", "additionalProperties", "not")
_MANY: Final = ("anyOf", "allOf", "oneOf")


def parts(schema: object, at: str) -> Iterator[tuple[str, Json]]:
    """Yield a schema and those inside it, by path; what is data (`enum`, `default`) is none."""
    if not isinstance(schema, Mapping):
        return
    given = cast("Json", schema)
    yield at, given
    for name in _NAMED:
        inside = given.get(name)
        if isinstance(inside, Mapping):
            for key, one in cast("Json", inside).items():
                yield from parts(one, f"{at}.{name}.{key}")
    for name in _SINGLE:
        yield from parts(given.get(name), f"{at}.{name}")
    for name in _MANY:
        inside = given.get(name)
        if isinstance(inside, list):
            for place, one in enumerate(cast("list[object]", inside)):
                yield from parts(one, f"{at}.{name}.{place}")


def unsupported_keywords(schema: object, at: str) -> Faults:
    """Yield what Claude's structured outputs refuse in a schema."""
    for path, one in parts(schema, at):
        for name in sorted(one.keys() & UNSUPPORTED):
            yield f"{path}.{name}", "is not supported"
        if one.get("minItems", 0) not in (0, 1):
            yield f"{path}.minItems", "is neither 0 nor 1"
        is_object = "properties" in one or one.get("type") == "object"
        if is_object and one.get("additionalProperties") is not False:
            yield f"{path}.additionalProperties", "is not false"


def loose_objects(schema: object, at: str) -> Faults:
    """Yield what OpenAI's strict mode refuses: open objects and optional properties."""
    for path, one in parts(schema, at):
        if one.get("type") != "object" and "properties" not in one:
            continue
        if one.get("additionalProperties") is not False:
            yield f"{path}.additionalProperties", "is not false"
        required = entries(one.get("required"))
        missing = [name for name in members(one.get("properties")) if name not in required]
        if missing:
            yield f"{path}.required", f"lacks {sorted(missing)}"
