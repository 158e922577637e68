"""Tools whose type names the vendor that runs them stay behind at others."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, dropped, one_of_each

pytestmark = pytest.mark.anyio

VENDORS = "openai azure mistral groq vllm gemini cohere anthropic bedrock openai-responses"
CLOCK: Json = {"type": "openrouter:datetime"}
FUNCTION: Json = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SEARCH: Json = {"type": "openrouter:web_search"}
BUILT_IN: Json = {"type": "builtin_function", "function": {"name": "$web_search"}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("named")
    async with one_of_each(folder, *VENDORS.split(), "openrouter", "moonshot") as one:
        yield one


@pytest.mark.parametrize("model", ["openai/gpt-4.1", *VENDORS.split()[1:]])
@pytest.mark.parametrize("tool", [CLOCK, BUILT_IN])
async def test_a_tool_of_another_vendor_is_left_out_and_named(
    rig: Rig, model: str, tool: Json
) -> None:
    answer = await rig.chat(model, tools=[FUNCTION, tool])

    assert answer.status_code == 200, answer.text
    body = rig.vendor.requests[-1].body
    assert b"web_search" not in body
    assert b"datetime" not in body
    assert b'"f"' in body
    assert "tools[]" in dropped(answer)


@pytest.mark.vendor_refuses("schema", because="these are the vendors' own, or an unknown server's")
@pytest.mark.parametrize(
    ("model", "tool"), [("openrouter", SEARCH), ("moonshot", BUILT_IN), ("openai/m", SEARCH)]
)
async def test_a_vendor_gets_its_own_and_so_does_an_unknown_server(
    rig: Rig, model: str, tool: Json
) -> None:
    answer = await rig.chat(model, tools=[tool])

    assert answer.status_code == 200, answer.text
    assert cast("list[Json]", rig.sent["tools"]) == [tool]
    assert dropped(answer) == []


async def test_a_request_without_any_other_tool_goes_without_tools(rig: Rig) -> None:
    answer = await rig.chat("mistral", tools=[SEARCH], tool_choice="auto")

    assert answer.status_code == 200, answer.text
    assert {"tools", "tool_choice"}.isdisjoint(rig.sent)
