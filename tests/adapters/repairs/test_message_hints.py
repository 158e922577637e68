"""Names, details of images and one call at a time cost no answer where a vendor lacks them."""

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

CLAUDES = ("anthropic", "vertex-anthropic", "bedrock")
URL = "data:image/png;base64,iVBORw0KGgo="
FUNCTION: Json = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("hints"), *CLAUDES) as one:
        yield one


@pytest.mark.parametrize("model", CLAUDES)
async def test_a_name_is_left_out_and_named(rig: Rig, model: str) -> None:
    messages = [
        {"role": "system", "content": "Be kind.", "name": "host"},
        {"role": "user", "content": "hi", "name": "user"},
        {"role": "assistant", "content": "hello", "name": "helper"},
        {"role": "user", "content": "and?", "name": "Ann"},
    ]
    answer = await rig.chat(model, messages=messages)

    assert answer.status_code == 200, answer.text
    assert dropped(answer) == ["messages[].name"]
    assert len(cast("list[Json]", rig.sent["messages"])) == 3


@pytest.mark.parametrize("model", CLAUDES)
@pytest.mark.parametrize("detail", ["high", "low"])
async def test_an_images_detail_is_left_out_and_named(rig: Rig, model: str, detail: str) -> None:
    image = {"type": "image_url", "image_url": {"url": URL, "detail": detail}}
    content = [image, {"type": "text", "text": "What is it?"}]
    answer = await rig.chat(model, messages=[{"role": "user", "content": content}])

    assert answer.status_code == 200, answer.text
    assert dropped(answer) == ["messages[].content[].image_url.detail"]
    (turn,) = cast("list[Json]", rig.sent["messages"])
    assert len(cast("list[Json]", turn["content"])) == 2


async def test_a_responses_clients_detail_is_left_out_as_well(rig: Rig) -> None:
    content = [{"type": "input_image", "image_url": URL, "detail": "high"}]
    answer = await rig.responses("anthropic", input=[{"role": "user", "content": content}])

    assert answer.status_code == 200, answer.text
    assert dropped(answer) == ["input[].content[].detail"]


@pytest.mark.parametrize("choice", ["auto", {"type": "function", "function": {"name": "f"}}])
async def test_bedrock_answers_without_a_word_for_one_call(rig: Rig, choice: object) -> None:
    answer = await rig.chat(
        "bedrock", tools=[FUNCTION], tool_choice=choice, parallel_tool_calls=False
    )

    assert answer.status_code == 200, answer.text
    assert "parallel_tool_calls:one_call" in repairs(answer)


async def test_a_model_can_insist_on_one_call_at_a_time(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("insists")
    async with one_of_each(folder, "bedrock", more=", require: true") as rig:
        answer = await rig.chat("bedrock", tools=[FUNCTION], parallel_tool_calls=False)

    assert answer.status_code == 200, answer.text
