"""Schemas reach a vendor with a compiled grammar in the form that it takes, and lose no words."""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.adapters.repairs.json_schemas import formed, unbounded
from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

CLAUDES = ("anthropic", "vertex-anthropic", "bedrock")
REFUSED = {
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "oneOf",
    "prefixItems",
    "not",
}
SCHEMA: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "score": {"type": "integer", "minimum": 1, "maximum": 10, "description": "Of ten."},
        "name": {"type": "string", "minLength": 1, "pattern": "^[A-Z]+$"},
        "word": {"type": "string", "pattern": "^(?!x)", "format": "ulid"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
        "more": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
        "either": {"oneOf": [{"type": "string", "not": {"const": "x"}}, {"$ref": "#/$defs/inner"}]},
        "maybe": {"type": "string", "nullable": True},
    },
    "required": ["score"],
    "$defs": {"inner": {"properties": {"k": {"type": "number", "exclusiveMinimum": 0}}}},
}
SMALL: Json = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
FITTING: Json = {
    "type": "object",
    "properties": {"n": {"type": ["integer", "null"]}, "d": {"type": "string", "format": "date"}},
    "required": ["n"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("schemas"), *CLAUDES) as one:
        yield one


@pytest.fixture(scope="module")
async def strict(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("strict")
    async with one_of_each(folder, *CLAUDES, more=", on_repair: reject") as one:
        yield one


def format_of(sent: Json) -> Json:
    """The schema of the answer in a vendor's request."""
    if "outputConfig" in sent:
        form = cast("Mapping[str, Mapping[str, Mapping[str, str]]]", sent["outputConfig"])
        inner = cast("Json", form["textFormat"]["structure"])["jsonSchema"]
        return json.loads(cast("Json", inner)["schema"])  # pyright: ignore[reportArgumentType]
    config = cast("Mapping[str, Json]", sent["output_config"])
    return cast("Json", config["format"]["schema"])


def parameters_of(sent: Json) -> Json:
    """The schema of the first function in a vendor's request."""
    if "toolConfig" in sent:
        tools = cast("Mapping[str, list[Mapping[str, Json]]]", sent["toolConfig"])["tools"]
        return cast("Json", cast("Json", tools[0]["toolSpec"]["inputSchema"])["json"])
    return cast("Json", cast("list[Json]", sent["tools"])[0]["input_schema"])


def keywords(schema: object) -> Iterator[str]:
    """The keywords of a schema and of all schemas in it."""
    if not isinstance(schema, dict):
        return
    for name, value in cast("Json", schema).items():
        yield name
        if name in ("properties", "$defs"):
            for inner in cast("Json", value).values():
                yield from keywords(inner)
        elif isinstance(value, list):
            for inner in cast("list[object]", value):
                yield from keywords(inner)
        else:
            yield from keywords(value)


def is_closed(schema: object) -> bool:
    if isinstance(schema, list):
        return all(is_closed(one) for one in cast("list[object]", schema))
    if not isinstance(schema, dict):
        return True
    found = cast("Json", schema)
    own = found.get("type") != "object" or found.get("additionalProperties") is False
    return own and all(is_closed(one) for one in found.values())


async def ask(rig: Rig, surface: str, model: str) -> list[str]:
    """Send the schema from a client of this API, and return what was repaired."""
    if surface == "chat":
        answer = await rig.chat(model, response_format=FORM)
    elif surface == "messages":
        config = {"format": {"type": "json_schema", "schema": SCHEMA}}
        answer = await rig.messages(model, output_config=config)
    else:
        form = {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}
        answer = await rig.responses(model, text={"format": form})
    assert answer.status_code == 200, answer.text
    return repairs(answer)


@pytest.mark.parametrize("model", CLAUDES)
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
async def test_an_answers_schema_is_closed_and_its_bounds_are_told(
    rig: Rig, surface: str, model: str
) -> None:
    named = await ask(rig, surface, model)

    schema = format_of(rig.sent)
    assert not REFUSED & set(keywords(schema))
    assert is_closed(schema)
    properties = cast("Mapping[str, Json]", schema["properties"])
    assert properties["score"]["description"] == "Of ten.\n\n{maximum: 10, minimum: 1}"
    assert properties["name"]["pattern"] == "^[A-Z]+$"
    assert properties["word"]["description"] == "{format: ulid, pattern: ^(?!x)}"
    assert properties["tags"]["minItems"] == 1
    assert properties["maybe"]["type"] == ["string", "null"]
    assert schema["required"] == ["score"]
    assert {one.rpartition(":")[2] for one in named} == {"schema_form", "schema_keywords"}


@pytest.mark.parametrize("model", CLAUDES)
@pytest.mark.parametrize("surface", ["chat", "messages"])
async def test_only_strict_functions_are_compiled(rig: Rig, surface: str, model: str) -> None:
    for one_strict in (True, False):
        if surface == "chat":
            function = {"name": "f", "parameters": SMALL, "strict": one_strict}
            tools: Json = {"tools": [{"type": "function", "function": function}]}
            answer = await rig.chat(model, **tools)
        else:
            tool = {"name": "f", "input_schema": SMALL, "strict": one_strict}
            answer = await rig.messages(model, tools=[tool])

        assert answer.status_code == 200, answer.text
        sent = parameters_of(rig.sent)
        assert ("minimum" in set(keywords(sent))) is not one_strict
        assert bool(repairs(answer)) is one_strict


@pytest.mark.vendor_refuses("schema", because="a member of a beta, without its header")
async def test_what_the_client_says_of_thinking_stays(rig: Rig) -> None:
    config = {"format": {"type": "json_schema", "schema": SMALL}, "task_budget": {"total": 1}}
    thinking = {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}
    answer = await rig.messages("anthropic", output_config=config, thinking=thinking)

    assert answer.status_code == 200, answer.text
    assert rig.sent["thinking"] == thinking
    sent = cast("Json", rig.sent["output_config"])
    assert sent.keys() == {"format", "task_budget"}


@pytest.mark.vendor_refuses("schema", because="an unknown member shows the original")
async def test_other_tools_keep_the_clients_own_form(rig: Rig) -> None:
    other = {"name": "g", "input_schema": {"type": "object", "minProperties": 1}, "x_own": 1}
    tools = [{"name": "f", "input_schema": SMALL, "strict": True}, other]
    answer = await rig.messages("anthropic", tools=tools)

    assert answer.status_code == 200, answer.text
    assert cast("list[Json]", rig.sent["tools"])[1] == other


@pytest.mark.parametrize("model", CLAUDES)
async def test_a_schema_that_fits_is_sent_as_it_is(rig: Rig, model: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": FITTING}}
    answer = await rig.chat(model, response_format=form)

    assert answer.status_code == 200, answer.text
    assert format_of(rig.sent) == FITTING
    assert repairs(answer) == []


@pytest.mark.parametrize("model", CLAUDES)
async def test_a_model_can_insist_on_bounds(strict: Rig, model: str) -> None:
    answer = await strict.chat(model, response_format=FORM)

    assert answer.status_code == 400
    assert "schema_keywords" in answer.text
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    closed = await strict.chat(model, response_format=form)
    assert closed.status_code == 200, closed.text


LEAVES = st.sampled_from(
    [
        {"type": "integer", "minimum": 1.5},
        {"type": "string", "pattern": "\\bx"},
        {"type": "string", "format": "date", "maxLength": 3},
        {"enum": [1, {"a": 2}]},
        {"const": [1]},
        {"type": "array", "items": [{"type": "string"}], "minItems": 3},
        {"$ref": "#/$defs/x", "description": "d"},
        True,
        {},
    ]
)
NESTED = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2).map(
            lambda found: {"type": "object", "properties": found, "maxProperties": 9}
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda found: {"oneOf": found, "title": "t"}),
        st.lists(inner, min_size=1, max_size=2).map(lambda found: {"allOf": found}),
        inner.map(lambda found: {"type": "object", "additionalProperties": found}),
        inner.map(lambda found: {"type": "array", "items": found, "maxItems": 2}),
    ),
    max_leaves=8,
)


@given(NESTED)
def test_a_repaired_schema_needs_no_repair_and_has_no_refused_keyword(schema: object) -> None:
    raw = Raw(json.dumps(schema).encode())
    raw = formed(raw) or raw
    raw = unbounded(raw) or raw

    assert formed(raw) is None
    assert unbounded(raw) is None
    found = json.loads(bytes(raw))
    assert not REFUSED & set(keywords(found))
    assert is_closed(found)


def test_a_schema_that_is_nested_without_end_stays_as_it_is() -> None:
    deep = b'{"items":' * 200 + b"{}" + b"}" * 200

    assert formed(Raw(deep)) is None
    assert unbounded(Raw(deep)) is None
    assert formed(Raw(b"not JSON")) is None
