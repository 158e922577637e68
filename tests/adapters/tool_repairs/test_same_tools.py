"""A function that a request offers twice is offered once."""

from collections.abc import AsyncGenerator

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, dropped, one_of_each

pytestmark = pytest.mark.anyio

VENDORS = ("openai", "openai-responses", "deepseek", "gemini", "anthropic", "bedrock", "mistral")
SURFACES = ("chat", "messages", "responses")
SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
TURNED: Json = {"properties": {"b": {"type": "string"}, "a": {"type": "string"}}, "type": "object"}
OTHER: Json = {"type": "object", "properties": {"c": {"type": "string"}}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("tools"), *VENDORS) as one:
        yield one


def tool(surface: str, name: str, schema: Json) -> Json:
    if surface == "messages":
        return {"name": name, "description": "d", "input_schema": schema}
    inner: Json = {"name": name, "description": "d", "parameters": schema}
    return {"type": "function", **(inner if surface == "responses" else {"function": inner})}


async def offered(rig: Rig, surface: str, model: str, *tools: tuple[str, Json]) -> list[str]:
    """Return the dropped parameters of a request with these functions."""
    send = {"chat": rig.chat, "messages": rig.messages, "responses": rig.responses}[surface]
    answer = await send(model, tools=[tool(surface, *one) for one in tools])
    assert answer.status_code == 200, answer.text
    return dropped(answer)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("model", VENDORS)
async def test_equal_functions_are_offered_once(rig: Rig, model: str, surface: str) -> None:
    gone = await offered(rig, surface, model, ("web", SCHEMA), ("web", SCHEMA), ("g", SCHEMA))

    sent = str(rig.sent.get("tools") or rig.sent["toolConfig"])
    assert (sent.count("'web'"), sent.count("'g'")) == (1, 1)
    assert gone == ["tools[]"]


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_order_of_a_schemas_members_makes_no_other_function(
    rig: Rig, surface: str
) -> None:
    await offered(rig, surface, "openai", ("web", SCHEMA), ("web", TURNED))

    assert str(rig.sent["tools"]).count("'web'") == 1


@pytest.mark.parametrize("surface", SURFACES)
async def test_different_functions_of_one_name_are_left_to_the_vendor(
    rig: Rig, surface: str
) -> None:
    gone = await offered(rig, surface, "openai", ("web", SCHEMA), ("web", OTHER))

    assert (str(rig.sent["tools"]).count("'web'"), gone) == (2, [])
