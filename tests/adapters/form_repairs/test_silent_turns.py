"""A turn in which the model only thought is left out where turns need a text or a call."""

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

VENDORS = (
    "openai azure deepseek mistral vllm gemini cohere ollama anthropic bedrock".split()  # noqa: SIM905  ten strings
)
SIGNATURE = "c2ln"
HELLO: Json = {"role": "user", "content": "Hello."}
AGAIN: Json = {"role": "user", "content": "Are you there?"}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("silent")
    async with one_of_each(folder, *VENDORS) as one:
        yield one


def roles(rig: Rig) -> list[object]:
    return [one["role"] for one in cast("list[Json]", rig.sent["messages"])]


@pytest.mark.parametrize("model", ["openai", "azure", "deepseek", "mistral", "vllm"])
async def test_a_turn_of_thoughts_alone_is_left_out(rig: Rig, model: str) -> None:
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": SIGNATURE}
    turn: Json = {"role": "assistant", "content": [thought]}
    answer = await rig.messages(model, messages=[HELLO, turn, AGAIN])

    assert answer.status_code == 200, answer.text
    assert roles(rig) == ["user", "user"]
    assert "messages[]" in dropped(answer)


@pytest.mark.parametrize(
    "model", ["openai", "mistral", "vllm", "anthropic", "bedrock", "gemini", "cohere", "ollama"]
)
@pytest.mark.parametrize("content", [None, []])
async def test_a_chat_clients_turn_without_anything_is_left_out(
    rig: Rig, model: str, content: object
) -> None:
    turn: Json = {"role": "assistant", "content": content, "tool_calls": []}
    answer = await rig.chat(model, messages=[HELLO, turn, AGAIN])

    assert answer.status_code == 200, answer.text
    assert b'"assistant"' not in rig.vendor.requests[-1].body
    assert b'"model","' not in rig.vendor.requests[-1].body
    assert "messages[]" in dropped(answer)


async def test_a_blank_turn_is_left_out_where_it_is_refused(rig: Rig) -> None:
    turn: Json = {"role": "assistant", "content": " "}
    answer = await rig.chat("mistral", messages=[HELLO, turn, AGAIN])
    assert roles(rig) == ["user", "user"]
    assert "messages[]" in dropped(answer)

    answer = await rig.chat("openai", messages=[HELLO, turn, AGAIN])
    assert roles(rig) == ["user", "assistant", "user"]
    assert dropped(answer) == []


async def test_a_turn_with_a_call_stays(rig: Rig) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn: Json = {"role": "assistant", "content": [], "tool_calls": [call]}
    result: Json = {"role": "tool", "tool_call_id": "call_1", "content": []}
    answer = await rig.chat("openai", messages=[HELLO, turn, result])

    assert answer.status_code == 200, answer.text
    sent = cast("list[Json]", rig.sent["messages"])
    assert [one["content"] for one in sent] == ["Hello.", None, ""]
    assert repairs(answer) == dropped(answer) == []


@pytest.mark.parametrize("content", ["", []])
async def test_a_user_may_say_nothing(rig: Rig, content: object) -> None:
    answer = await rig.chat("openai", messages=[{"role": "user", "content": content}])

    assert answer.status_code == 200, answer.text
    assert rig.sent["messages"] == [{"role": "user", "content": ""}]
