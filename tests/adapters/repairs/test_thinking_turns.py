"""Thinking in places where Claude refuses its own: alone, or at an end that goes on without it."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import (
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio

VENDORS = ["anthropic", "vertex-anthropic", "bedrock"]
HI: Json = {"role": "user", "content": "hi"}
OWN: Json = {"type": "thinking", "thinking": "Hm.", "signature": "b3duIHByb29m"}
TEXT: Json = {"type": "text", "text": "Well,"}
BUDGET: Json = {"type": "enabled", "budget_tokens": 1024}
TOOL: Json = {"name": "f", "input_schema": {"type": "object"}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("thinking"), *VENDORS) as one:
        yield one


def kinds(sent: Json) -> list[list[str]]:
    """Return the kinds of each turn's blocks."""
    found: list[list[str]] = []
    for turn in cast("list[Json]", sent["messages"]):
        content = turn["content"]
        blocks = [{"text": content}] if isinstance(content, str) else cast("list[Json]", content)
        found.append([str(one.get("type") or next(iter(one))) for one in blocks])
    return found


@pytest.mark.parametrize("model", VENDORS)
async def test_a_turn_of_thinking_alone_is_left_out(rig: Rig, model: str) -> None:
    turns = [HI, {"role": "assistant", "content": [OWN]}, {"role": "user", "content": "again"}]
    answer = await rig.messages(model, messages=turns)

    assert answer.status_code == 200, answer.text
    assert [kind for turn in kinds(rig.sent) for kind in turn] == ["text", "text"]
    assert dropped(answer) == ["messages.reasoning"]


@pytest.mark.parametrize("model", VENDORS)
async def test_a_chats_turn_of_thinking_alone_is_left_out(rig: Rig, model: str) -> None:
    details = [{"type": "reasoning.text", "text": "Hm.", "signature": "b3duIHByb29m"}]
    turn = {"role": "assistant", "content": "", "reasoning_details": details}
    answer = await rig.chat(model, messages=[HI, turn, {"role": "user", "content": "again"}])

    assert answer.status_code == 200, answer.text
    assert [kind for turn in kinds(rig.sent) for kind in turn] == ["text", "text"]
    assert dropped(answer) == ["messages.reasoning"]


@pytest.mark.parametrize("model", VENDORS)
async def test_a_begun_answer_goes_on_without_its_thinking(rig: Rig, model: str) -> None:
    turns = [HI, {"role": "assistant", "content": [OWN, TEXT]}]
    answer = await rig.messages(model, messages=turns)

    assert answer.status_code == 200, answer.text
    assert kinds(rig.sent)[1] == ["text"]
    assert dropped(answer) == ["messages.reasoning"]


@pytest.mark.parametrize("model", VENDORS)
async def test_a_begun_answer_goes_on_thinking(rig: Rig, model: str) -> None:
    turns = [HI, {"role": "assistant", "content": [OWN, TEXT]}]
    answer = await rig.messages(model, messages=turns, thinking=BUDGET)

    assert answer.status_code == 200, answer.text
    assert len(kinds(rig.sent)[1]) == 2
    assert (repairs(answer), dropped(answer)) == ([], [])


@pytest.mark.parametrize("model", VENDORS)
async def test_a_begun_answer_without_thinking_goes_on_without(rig: Rig, model: str) -> None:
    turns = [HI, {"role": "assistant", "content": [TEXT]}]
    answer = await rig.messages(model, messages=turns, thinking=BUDGET)

    assert answer.status_code == 200, answer.text
    assert "thinking" not in rig.sent
    assert "additionalModelRequestFields" not in rig.sent
    assert dropped(answer) == ["thinking"]


@pytest.mark.parametrize(
    "model",
    [
        "bedrock/anthropic.claude-opus-4-6-v1",
        "bedrock/anthropic.claude-opus-4-8",
        "anthropic/claude-opus-4-6",
        "vertex-anthropic/claude-opus-4-8",
    ],
)
async def test_a_forced_call_goes_without_adaptive_thinking(rig: Rig, model: str) -> None:
    answer = await rig.messages(
        model, thinking={"type": "adaptive"}, tools=[TOOL], tool_choice={"type": "any"}
    )

    assert answer.status_code == 200, answer.text
    sent = cast("dict[str, Json]", rig.sent)
    assert "thinking" not in (sent.get("additionalModelRequestFields") or sent)
    assert dropped(answer) == ["thinking"]


@pytest.mark.parametrize("model", ["anthropic", "vertex-anthropic"])
async def test_thinking_is_not_marked_for_a_cache(rig: Rig, model: str) -> None:
    mark = {"type": "ephemeral"}
    marked = {**OWN, "cache_control": mark}
    text = {**TEXT, "cache_control": mark}
    again = {"role": "user", "content": "again"}
    answer = await rig.messages(
        model, messages=[HI, {"role": "assistant", "content": [marked, text]}, again]
    )

    assert answer.status_code == 200, answer.text
    turn = cast("list[Json]", rig.sent["messages"])[1]
    assert turn["content"] == [OWN, text]
    assert dropped(answer) == ["messages[].content[].cache_control"]
