"""Documents and search results whose text a model can read, where it cannot cite them."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

VENDORS = "openai mistral vllm ollama cohere gemini bedrock openai-responses anthropic"
RESULT: Json = {
    "type": "search_result",
    "title": "Bern",
    "source": "https://a.test/bern",
    "content": [{"type": "text", "text": "It is sunny."}],
}
TEXT = r"Bern\nhttps://a.test/bern\nIt is sunny."


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("texts"), *VENDORS.split()) as one:
        yield one


@pytest.mark.parametrize("model", VENDORS.split()[:-1])
async def test_a_search_result_is_its_text(rig: Rig, model: str) -> None:
    answer = await rig.messages(model, messages=[{"role": "user", "content": [RESULT]}])

    assert answer.status_code == 200, answer.text
    assert TEXT.encode() in rig.vendor.requests[-1].body
    assert any(one.endswith(":search_result") for one in repairs(answer))


@pytest.mark.parametrize("model", VENDORS.split()[:-1])
async def test_a_search_result_of_a_tool_is_its_text(rig: Rig, model: str) -> None:
    call: Json = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}
    result: Json = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [RESULT]}
    turns: list[Json] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    tool = {"name": "search", "input_schema": {"type": "object"}}
    answer = await rig.messages(model, messages=turns, tools=[tool])

    assert answer.status_code == 200, answer.text
    assert TEXT.encode() in rig.vendor.requests[-1].body


async def test_claude_gets_the_search_result(rig: Rig) -> None:
    answer = await rig.messages("anthropic", messages=[{"role": "user", "content": [RESULT]}])

    assert answer.status_code == 200, answer.text
    (turn,) = cast("list[Json]", rig.sent["messages"])
    assert turn["content"] == [RESULT]
    assert repairs(answer) == []


@pytest.mark.parametrize("model", ["ollama", "cohere"])
async def test_a_document_of_text_is_text(rig: Rig, model: str) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "It is sunny."}
    block: Json = {"type": "document", "source": source, "title": "bern.txt"}
    answer = await rig.messages(model, messages=[{"role": "user", "content": [block]}])

    assert answer.status_code == 200, answer.text
    assert rb"bern.txt:\nIt is sunny." in rig.vendor.requests[-1].body
    assert any(one.endswith(":file_form") for one in repairs(answer))


@pytest.mark.parametrize("model", ["gemini", "bedrock", "cohere", "anthropic"])
async def test_a_turn_without_parts_is_a_blank_one(rig: Rig, model: str) -> None:
    turn: Json = {"role": "user", "content": []}
    answer = await rig.responses(model, input=[turn, {"role": "user", "content": "hi"}])

    assert answer.status_code == 200, answer.text
