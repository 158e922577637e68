"""Claude caches the prompts of agents that mark nothing; other requests cost what they did."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from strowger_gateway.adapters.anthropic.adapter import AnthropicAdapter
from strowger_gateway.adapters.anthropic.repairs import ANTHROPIC_REPAIRS
from strowger_gateway.adapters.conformance import repair_checks
from strowger_gateway.adapters.form_repairs.prompt_cache import PROMPT_CACHE
from strowger_gateway.adapters.testing import contract_endpoint
from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

READ = (
    "anthropic",
    "vertex-anthropic",
    "bedrock",
    "openrouter/anthropic/claude-sonnet-4.5",
    "databricks/databricks-claude-sonnet-4-5",
)
LACK = ("openai/gpt-5.5", "openrouter/openai/gpt-5.5", "bedrock/amazon.titan-v1:0", "gemini")
NAMED = "[].content[].cache_control:prompt_cache"
LONG = "You are a careful agent. " * 200
FUNCTION: Json = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL: Json = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": "{}"}}
LOOP: list[Json] = [
    {"role": "system", "content": LONG},
    {"role": "user", "content": "Look."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call00001", "content": "It rains."},
]
USE: Json = {"type": "tool_use", "id": "call00001", "name": "f", "input": {}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "call00001", "content": "It rains."}
TURNS: list[Json] = [
    {"role": "user", "content": "Look."},
    {"role": "assistant", "content": [USE]},
    {"role": "user", "content": [RESULT]},
]
ITEMS: list[Json] = [
    {"role": "user", "content": "Look."},
    {"type": "function_call", "call_id": "call00001", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call00001", "output": "It rains."},
]


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    names = sorted({one.partition("/")[0] for one in (*READ, *LACK)})
    async with one_of_each(tmp_path_factory.mktemp("prompt"), *names) as one:
        yield one


def marks(sent: Json) -> int:
    """Return how many marks a request has, and check that Claude takes them."""
    text = json.dumps(sent)
    found = text.count('"cache_control"') + text.count('"cachePoint"')
    assert found <= 4
    return found


async def loop(rig: Rig, surface: str, model: str) -> list[str]:
    """Send an agent's second request, and return what was repaired."""
    if surface == "messages":
        tool = {"name": "f", "input_schema": {"type": "object"}}
        answer = await rig.messages(model, system=LONG, tools=[tool], messages=TURNS)
    elif surface == "responses":
        tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
        answer = await rig.responses(model, instructions=LONG, tools=[tool], input=ITEMS)
    else:
        answer = await rig.chat(model, tools=[FUNCTION], messages=LOOP)
    assert answer.status_code == 200, answer.text
    return repairs(answer)


@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
@pytest.mark.parametrize("model", READ)
async def test_an_agents_loop_is_cached_up_to_three_places(
    rig: Rig, surface: str, model: str
) -> None:
    named = await loop(rig, surface, model)

    assert marks(rig.sent) == 3
    assert any(one.endswith(NAMED) for one in named)


@pytest.mark.parametrize("model", LACK)
async def test_a_vendor_that_reads_no_marks_gets_none(rig: Rig, model: str) -> None:
    named = await loop(rig, "chat", model)

    assert marks(rig.sent) == 0
    assert not any(one.endswith(NAMED) for one in named)


async def test_a_client_that_marks_something_itself_decides_alone(rig: Rig) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": LONG, **mark}]
    tool: Json = {"name": "f", "input_schema": {"type": "object"}}
    await rig.messages("anthropic", system=system, tools=[tool], messages=TURNS)
    by_part = rig.sent
    head: Json = {"role": "system", "content": system}
    await rig.chat("anthropic", tools=[FUNCTION], messages=[head, *LOOP[1:]])
    by_chat = rig.sent
    await rig.messages("anthropic", system=LONG, tools=[tool], messages=TURNS, **mark)

    assert (marks(by_part), marks(by_chat), marks(rig.sent)) == (1, 1, 1)


async def test_a_request_that_may_never_be_continued_and_a_short_one_are_not_marked(
    rig: Rig,
) -> None:
    await rig.chat("anthropic", tools=[FUNCTION], messages=LOOP[:2])
    first = rig.sent
    await rig.chat("anthropic", tools=[FUNCTION], messages=[*LOOP[1:]])

    assert (marks(first), marks(rig.sent)) == (0, 0)


async def test_without_instructions_the_tools_are_marked(rig: Rig) -> None:
    turns: list[Json] = [{"role": "user", "content": LONG}, *TURNS[1:]]
    tool: Json = {"name": "f", "input_schema": {"type": "object"}}
    await rig.messages("anthropic", tools=[tool, {**tool, "name": "g"}], messages=turns)

    tools = cast("list[Json]", rig.sent["tools"])
    assert ["cache_control" in one for one in tools] == [False, True]
    assert marks(rig.sent) == 3


async def test_an_operator_turns_it_off_or_has_every_long_request_marked(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    said: Json = {"role": "user", "content": "Hello"}
    for setting, first, later in (("off", 0, 0), ("always", 2, 3)):
        folder = tmp_path_factory.mktemp(setting)
        async with one_of_each(folder, "anthropic", more=f", prompt_cache: {setting}") as rig:
            await rig.chat("anthropic", messages=[LOOP[0], said])
            assert marks(rig.sent) == first
            await loop(rig, "chat", "anthropic")
            assert marks(rig.sent) == later


async def test_an_operator_who_forbids_marks_gets_none(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("denied")
    denied = ", client_fields: {deny: ['messages[].content[].cache_control']}"
    async with one_of_each(folder, "anthropic", anthropic=denied) as rig:
        await loop(rig, "chat", "anthropic")

        assert marks(rig.sent) == 0


def test_the_rule_keeps_the_contract_of_rules() -> None:
    adapter = AnthropicAdapter(contract_endpoint())

    repair_checks.check_rule(adapter, PROMPT_CACHE, (*ANTHROPIC_REPAIRS, PROMPT_CACHE))
