"""A function without arguments is offered with an object that has none."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

VENDORS = ("openai", "openai-responses", "deepseek", "mistral", "gemini", "cohere", "ollama")
EMPTY: Json = {"type": "object", "properties": {}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("schemas")
    async with one_of_each(folder, *VENDORS, "anthropic", "bedrock") as one:
        yield one


@pytest.mark.parametrize("model", [*VENDORS, "anthropic", "bedrock"])
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "object", "properties": None}])
async def test_a_function_without_properties_takes_an_object(
    rig: Rig, surface: str, model: str, schema: Json
) -> None:
    if surface == "chat":
        function = {"name": "f", "parameters": schema}
        answer = await rig.chat(model, tools=[{"type": "function", "function": function}])
    elif surface == "messages":
        answer = await rig.messages(model, tools=[{"name": "f", "input_schema": schema}])
    else:
        functions = [{"type": "function", "name": "f", "parameters": schema}]
        answer = await rig.responses(model, tools=functions)

    assert answer.status_code == 200, answer.text
    sent = json.dumps(rig.sent.get("tools") or rig.sent.get("toolConfig"))
    if model == "anthropic":
        assert '"type": "object"' in sent
        return
    assert '"properties": {}' in sent
    assert any(one.endswith(":object_schema") for one in repairs(answer))


async def test_other_schemas_are_sent_as_they_are(rig: Rig) -> None:
    schemas: list[Json] = [
        EMPTY,
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "object", "additionalProperties": {"type": "string"}, "properties": {}},
        {"$ref": "#/$defs/a", "$defs": {"a": EMPTY}},
    ]
    functions = [{"name": f"f{at}", "parameters": one} for at, one in enumerate(schemas)]
    tools = [{"type": "function", "function": one} for one in functions]
    answer = await rig.chat("deepseek", tools=tools)

    sent = cast("list[Json]", rig.sent["tools"])
    assert [cast("Json", one["function"])["parameters"] for one in sent] == schemas
    assert repairs(answer) == []
