"""A strict schema is sent in the form that OpenAI enforces, or without being enforced."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest
from msgspec import Raw

from strowger_gateway.adapters.form_repairs.strict_schemas import is_strict
from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

VENDORS = ("openai/gpt-4.1", "azure", "groq/openai/gpt-oss-120b", "cerebras", "openai-responses")
CLOSED: Json = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN: Json = {name: value for name, value in CLOSED.items() if name != "additionalProperties"}
OPTIONAL: Json = {**CLOSED, "required": []}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("strict")
    names = {one.partition("/")[0] for one in VENDORS}
    async with one_of_each(folder, *sorted(names), "vllm") as one:
        yield one


async def send(rig: Rig, model: str, schema: Json) -> tuple[list[str], Json, Json]:
    """Return the repairs, and what was sent of the format and of the function."""
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    function = {"name": "f", "parameters": schema, "strict": True}
    offered = await rig.chat(model, tools=[{"type": "function", "function": function}])
    assert offered.status_code == 200, offered.text
    tool = cast("list[Json]", rig.sent["tools"])[0]
    answer = await rig.chat(model, response_format=form)
    assert answer.status_code == 200, answer.text
    made = repairs(offered) + repairs(answer)
    if model == "openai-responses":
        return made, cast("Json", cast("Json", rig.sent["text"])["format"]), tool
    inner = cast("Json", cast("Json", rig.sent["response_format"])["json_schema"])
    return made, inner, cast("Json", tool["function"])


@pytest.mark.parametrize("model", VENDORS)
async def test_an_open_object_is_closed(rig: Rig, model: str) -> None:
    made, form, function = await send(rig, model, OPEN)

    assert (form["schema"], form["strict"]) == (CLOSED, True)
    assert (function["parameters"], function["strict"]) == (CLOSED, True)
    assert {one.partition(":")[2] for one in made} == {"strict_form"}


@pytest.mark.parametrize("model", VENDORS)
@pytest.mark.parametrize(
    "schema",
    [
        OPTIONAL,
        {**CLOSED, "additionalProperties": {"type": "string"}},
        {**CLOSED, "properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 1}]}}},
    ],
)
async def test_what_cannot_be_enforced_guides_the_answer(
    rig: Rig, model: str, schema: Json
) -> None:
    made, form, function = await send(rig, model, schema)

    assert (form["schema"], form["strict"]) == (schema, False)
    assert (function["parameters"], function["strict"]) == (schema, False)
    assert "tools[].function.strict:strict_off" in made


@pytest.mark.parametrize("model", ["openai/gpt-4.1", "azure", "openai-responses"])
async def test_the_forms_of_a_strict_function_are_one_object(rig: Rig, model: str) -> None:
    either: Json = {"anyOf": [CLOSED, {**CLOSED, "required": []}]}
    made, form, function = await send(rig, model, either)

    assert (form["schema"], form["strict"]) == (either, False)
    sent = cast("Json", function["parameters"])
    assert (sent["type"], sent["properties"]) == ("object", CLOSED["properties"])
    assert function["strict"] is False
    assert "tools[].function.strict:strict_off" in made


async def test_a_schema_that_can_be_enforced_is_sent_as_it_is(rig: Rig) -> None:
    made, form, _ = await send(rig, "azure", CLOSED)

    assert (made, form["schema"], form["strict"]) == ([], CLOSED, True)


async def test_a_server_with_a_grammar_of_its_own_enforces_more(rig: Rig) -> None:
    made, form, _ = await send(rig, "vllm", OPTIONAL)

    assert (made, form["schema"], form["strict"]) == ([], OPTIONAL, True)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "properties": {"a": {"enum": [{"type": "object"}]}}}, True),
        ({**CLOSED, "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": CLOSED}}, True),
        ({**CLOSED, "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": OPEN}}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": OPTIONAL}}}, False),
        ({"type": "object"}, False),
        ({}, False),
    ],
)
def test_only_closed_objects_with_all_properties_can_be_enforced(
    schema: Json, strict: bool
) -> None:
    assert is_strict(Raw(json.dumps(schema).encode())) is strict
