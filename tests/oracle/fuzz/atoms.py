"""What clients really send, each value with those that some vendor refuses."""

from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Json = dict[str, object]
Made = SearchStrategy[Json]

TEXTS: Final = st.sampled_from(("hi", "Say it as JSON.", "Grüezi 🌍", "a\n", "", " ", "\n\t"))
SAID: Final = st.sampled_from(("hi", "Say it as JSON.", "Grüezi 🌍"))
IDS: Final = ("call_1", "toolu_01A", "functions.Bash:0", "a|b", "call 2", "x" * 70, "")
NAMES: Final = ("look", "mcp__files__read", "files.read", "a b", "1look", "n" * 70, "ünder")
ARGUMENTS: Final = st.sampled_from(("{}", '{"q": "a"}', ""))
PNG: Final = "iVBORw0KGgo="
MEDIA: Final = st.sampled_from(("image/png", "image/jpeg", "image/jpg"))
PDF: Final = "JVBERi0xLjc="

_STRING: Final[Json] = {"type": "string"}
SCHEMAS: Final[tuple[Json, ...]] = (
    {"type": "object", "properties": {"q": _STRING}},
    {"type": "object", "properties": {"q": _STRING}, "required": ["q"]},
    {
        "type": "object",
        "properties": {"q": _STRING},
        "required": ["q"],
        "additionalProperties": False,
    },
    {"type": "object"},
    {},
    {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}},
    {"type": "object", "properties": {"l": {"type": "array", "items": _STRING, "minItems": 2}}},
    {"type": "object", "properties": {"l": {"type": "array"}}},
    {"type": "object", "properties": {"e": {"type": "string", "enum": ["a", ""]}}},
    {"type": "object", "properties": {"u": {"type": ["string", "null"]}}},
    {"anyOf": [{"type": "object", "properties": {"q": _STRING}}, {"type": "object"}]},
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"r": {"$ref": "#/$defs/r"}},
        "$defs": {"r": _STRING},
        "additionalProperties": True,
    },
)
SCHEMA: Final = st.sampled_from(SCHEMAS)

TEMPERATURE: Final = st.sampled_from((0, 0.5, 1, 1.0, 1.7))
TOP_P: Final = st.sampled_from((0.1, 0.97, 1.0))
LIMIT: Final = st.sampled_from((1, 9, 200, 4096))
STOPS: Final = st.sampled_from(
    (["END"], ["\n"], ["a", "b", "c", "d"], [f"s{place}" for place in range(12)])
)
USERS: Final = st.sampled_from(("u-1", "u" * 300))
EFFORTS: Final = st.sampled_from(("none", "minimal", "low", "medium", "high", "xhigh"))
METADATA: Final = st.sampled_from(({"a": "b"}, {"a": "b" * 600}))


def some(**fields: SearchStrategy[object]) -> Made:
    """Return objects with some of the fields, most often few."""
    chosen = st.sets(st.sampled_from(sorted(fields)), max_size=3)
    return chosen.flatmap(
        lambda names: st.fixed_dictionaries({name: fields[name] for name in sorted(names)})
    )
