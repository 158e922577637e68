"""Proofs of one maker's reasoning do not reach the models of others; its text does."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

PROOF = "cHJvb2Ygb2YgYW5vdGhlciBtYWtlcg=="
VENDORS = ("xai", "vllm", "dashscope", "zai", "minimax", "together", "openrouter", "deepseek")


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("proofs"), *VENDORS) as one:
        yield one


def turn(rig: Rig) -> Json:
    return cast("list[Json]", rig.sent["messages"])[1]


def messages_client() -> list[Json]:
    thinking: Json = {"type": "thinking", "thinking": "hm", "signature": PROOF}
    secret: Json = {"type": "redacted_thinking", "data": PROOF}
    blocks: list[Json] = [thinking, secret, {"type": "text", "text": "two"}]
    user: Json = {"role": "user", "content": "one"}
    return [user, {"role": "assistant", "content": blocks}, {"role": "user", "content": "three"}]


def chat_client(**fields: object) -> list[Json]:
    user: Json = {"role": "user", "content": "one"}
    said: Json = {"role": "assistant", "content": "two", **fields}
    return [user, said, {"role": "user", "content": "three"}]


def details(format: str) -> list[Json]:
    shown: Json = {"type": "reasoning.text", "text": "hm", "signature": PROOF, "format": format}
    return [shown, {"type": "reasoning.encrypted", "data": PROOF, "format": format}]


@pytest.mark.parametrize("model", [one for one in VENDORS if one != "openrouter"])
async def test_claudes_thinking_reaches_other_models_as_text(rig: Rig, model: str) -> None:
    answer = await rig.messages(model, messages=messages_client())

    assert answer.status_code == 200, answer.text
    assert turn(rig)["reasoning_content"] == "hm"
    assert PROOF not in json.dumps(rig.sent)
    assert "foreign_proof" in {one.rpartition(":")[2] for one in repairs(answer)}


@pytest.mark.parametrize("model", ["xai", "vllm", "openrouter/qwen/qwen3-max"])
@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_details": details("anthropic-claude-v1")},
        {"reasoning_details": details("google-gemini-v1"), "reasoning": "hm"},
        {"reasoning_content": "hm", "reasoning_signature": PROOF},
    ],
    ids=["Claude's", "Gemini's", "without a format"],
)
async def test_a_chat_clients_details_are_reduced_to_their_text(
    rig: Rig, model: str, fields: Json
) -> None:
    answer = await rig.chat(model, messages=chat_client(**fields))

    assert answer.status_code == 200, answer.text
    assert PROOF not in json.dumps(rig.sent)
    assert "hm" in (turn(rig).get("reasoning"), turn(rig).get("reasoning_content"))


@pytest.mark.parametrize(
    ("model", "format"),
    [
        ("openrouter/anthropic/claude-opus-4.8", "anthropic-claude-v1"),
        ("openrouter/google/gemini-3-pro", "google-gemini-v1"),
        ("openrouter/openai/gpt-5.5", "openai-responses-v1"),
        ("openrouter/x-ai/grok-4", "xai-responses-v1"),
        ("openrouter/openrouter/auto", "anthropic-claude-v1"),
        ("openrouter/qwen/qwen3-max", "another-format-v1"),
    ],
)
async def test_a_makers_own_models_get_its_proofs_back(rig: Rig, model: str, format: str) -> None:
    answer = await rig.chat(model, messages=chat_client(reasoning_details=details(format)))

    assert (answer.status_code, repairs(answer)) == (200, [])
    assert turn(rig)["reasoning_details"] == details(format)


async def test_a_turn_without_reasoning_is_left_alone(rig: Rig) -> None:
    answer = await rig.chat("xai", messages=chat_client())

    assert (repairs(answer), turn(rig)) == ([], {"role": "assistant", "content": "two"})
