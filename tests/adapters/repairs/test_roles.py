"""Roles that a vendor does not know, and system messages in the middle of a conversation."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

WITHOUT = (
    "deepseek",
    "moonshot",
    "vllm",
    "sglang",
    "llama-cpp",
    "lm-studio",
    "siliconflow",
    "xai",
    "openrouter",
    "databricks",
    "mistral",
    "tgi",
    "mindie",
    "cohere",
    "ollama",
)
OTHER_RESPONSES = ("vllm-responses", "ollama-responses", "lm-studio-responses")
HEADED = ("anthropic", "bedrock", "gemini")
TEMPLATED = (
    "vllm",
    "sglang",
    "llama-cpp",
    "lm-studio",
    "siliconflow",
    "ollama",
    "tgi",
    "mindie",
    "lmdeploy",
    "nvidia-nim",
    "vllm-responses",
)
LATER: list[Json] = [
    {"role": "system", "content": "A"},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "system", "content": "REMINDER"},
    {"role": "user", "content": "three"},
]


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("roles")
    names = dict.fromkeys(
        [*WITHOUT, *HEADED, *OTHER_RESPONSES, *TEMPLATED, "openai", "together", "vertex-anthropic"]
    )
    async with one_of_each(folder, *names) as one:
        yield one


def roles(rig: Rig) -> list[object]:
    return [one["role"] for one in cast("list[Json]", rig.sent["messages"])]


@pytest.mark.parametrize("model", WITHOUT)
@pytest.mark.parametrize("surface", ["chat", "responses"])
async def test_developer_becomes_system_where_only_openai_knows_it(
    rig: Rig, model: str, surface: str
) -> None:
    turns = [{"role": "developer", "content": "D"}, {"role": "user", "content": "u"}]
    if surface == "chat":
        answer = await rig.chat(model, messages=turns)
    else:
        answer = await rig.responses(model, input=turns)

    assert answer.status_code == 200, answer.text
    assert roles(rig) == ["system", "user"]
    place = "messages[].role" if surface == "chat" else "input[].role"
    assert repairs(answer) == [f"{place}:developer_role"]


@pytest.mark.parametrize("model", OTHER_RESPONSES)
@pytest.mark.parametrize("surface", ["chat", "responses"])
async def test_other_servers_of_the_responses_api_get_the_system(
    rig: Rig, model: str, surface: str
) -> None:
    turns = [{"role": "developer", "content": "D"}, {"role": "user", "content": "u"}]
    answer = await (
        rig.chat(model, messages=turns) if surface == "chat" else rig.responses(model, input=turns)
    )

    assert answer.status_code == 200, answer.text
    assert [one["role"] for one in cast("list[Json]", rig.sent["input"])] == ["system", "user"]


async def test_what_else_the_message_has_stays(rig: Rig) -> None:
    turns = [
        {"role": "developer", "content": "D", "name": "n", "x": 1},
        {"role": "user", "content": "u"},
    ]
    await rig.chat("siliconflow", messages=turns)

    first = cast("list[Json]", rig.sent["messages"])[0]
    assert first == {"role": "system", "content": "D", "name": "n", "x": 1}


@pytest.mark.parametrize(("model", "role"), [("gpt-5.5", "developer"), ("qwen3", "system")])
async def test_behind_an_unknown_address_the_model_decides(rig: Rig, model: str, role: str) -> None:
    turns = [{"role": "developer", "content": "D"}, {"role": "user", "content": "u"}]
    await rig.chat(f"openai/{model}", messages=turns)

    assert roles(rig) == [role, "user"]


@pytest.mark.parametrize("model", HEADED)
async def test_a_later_system_message_keeps_its_place(rig: Rig, model: str) -> None:
    answer = await rig.chat(model, messages=LATER)

    assert answer.status_code == 200, answer.text
    body = rig.sent
    head = json.dumps(body.get("system") or body.get("systemInstruction"))
    turns = json.dumps(body.get("messages") or body.get("contents"))
    assert "A" in head
    assert "REMINDER" not in head
    assert turns.index("two") < turns.index("REMINDER") < turns.index("three")
    assert repairs(answer) == ["messages[].role:later_system"]


ADDED: list[Json] = [*LATER[:3], {"role": "user", "content": "three"}, LATER[3]]
"""A reminder behind the user's turn, where Claude's newer models take one."""


@pytest.mark.parametrize("followed", [False, True], ids=["last", "followed"])
@pytest.mark.parametrize(
    ("model", "kept"),
    [
        ("anthropic/claude-opus-4-8", True),
        ("anthropic/claude-sonnet-5", True),
        ("anthropic/claude-sonnet-4-5", False),
        ("anthropic/claude-opus-4-7", False),
        ("anthropic/an-operators-name", False),
        ("vertex-anthropic/claude-opus-4-8", False),
    ],
)
@pytest.mark.parametrize("surface", ["chat", "messages"])
async def test_a_reminder_is_the_systems_where_the_model_takes_it(
    rig: Rig, surface: str, model: str, kept: bool, followed: bool
) -> None:
    later: list[Json] = [
        {"role": "assistant", "content": "four"},
        {"role": "user", "content": "five"},
    ]
    turns = [*ADDED, *(later if followed else [])]
    if surface == "chat":
        answer = await rig.chat(model, messages=turns)
    else:
        answer = await rig.messages(model, system="A", messages=turns[1:])

    assert answer.status_code == 200, answer.text
    sent = cast("list[Json]", rig.sent["messages"])
    places = [place for place, one in enumerate(sent) if one["role"] == "system"]
    assert places == ([3] if kept else [])
    assert "REMINDER" in json.dumps(sent[2:4])
    assert repairs(answer) == ([] if kept else ["messages[].role:later_system"])


@pytest.mark.parametrize("model", HEADED)
async def test_system_messages_at_the_head_stay_there(rig: Rig, model: str) -> None:
    turns = [LATER[0], {"role": "developer", "content": "B"}, LATER[1]]
    answer = await rig.chat(model, messages=turns)

    assert not repairs(answer)
    body = rig.sent
    assert "B" in json.dumps(body.get("system") or body.get("systemInstruction"))


@pytest.mark.parametrize("surface", ["chat", "responses"])
@pytest.mark.parametrize("model", TEMPLATED)
async def test_templates_get_one_system_message_at_the_beginning(
    rig: Rig, model: str, surface: str
) -> None:
    turns = [LATER[0], {"role": "developer", "content": "B"}, *LATER[1:]]
    if surface == "chat":
        answer = await rig.chat(model, messages=turns)
    else:
        answer = await rig.responses(model, input=turns)

    assert answer.status_code == 200, answer.text
    sent = cast("list[Json]", rig.sent.get("messages") or rig.sent["input"])
    texts = [text_in(one) for one in sent]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "user", "user"]
    assert texts == ["A\n\nB", "one", "two", "<system>\nREMINDER\n</system>", "three"]
    names = [one.rpartition(":")[2] for one in repairs(answer)]
    assert names == ["developer_role", "one_system", "later_system"]


def text_in(message: Json) -> object:
    content = message["content"]
    return content if isinstance(content, str) else cast("list[Json]", content)[0]["text"]


@pytest.mark.parametrize(
    ("model", "strict"),
    [
        ("siliconflow/Qwen/Qwen3.5-397B-A17B", True),
        ("together/Qwen/Qwen3.7-Max", True),
        ("openai/qwen3.6-plus", True),
        ("together/Qwen/Qwen3-235B-A22B", False),
        ("together/meta-llama/Llama-4", False),
        ("openai/gpt-4.1", False),
    ],
)
async def test_elsewhere_only_qwens_templates_are_known_to_need_that(
    rig: Rig, model: str, strict: bool
) -> None:
    await rig.chat(model, messages=LATER)

    assert (roles(rig)[3] == "user") is strict


async def test_parts_of_several_system_messages_are_joined_in_their_order(rig: Rig) -> None:
    parts = [{"type": "text", "text": "B"}, {"type": "text", "text": "C"}]
    await rig.chat("vllm", messages=[LATER[0], {"role": "system", "content": parts}, LATER[1]])

    assert cast("list[Json]", rig.sent["messages"])[0] == {"role": "system", "content": "A\n\nBC"}


async def test_a_cached_plan_repairs_every_request(rig: Rig) -> None:
    for text in ("first", "second"):
        turns = [{"role": "developer", "content": text}, {"role": "user", "content": "u"}]
        answer = await rig.chat("deepseek", messages=turns)
        assert repairs(answer) == ["messages[].role:developer_role"]
        assert cast("list[Json]", rig.sent["messages"])[0] == {"role": "system", "content": text}
    plain = await rig.chat("deepseek")
    assert not repairs(plain)
