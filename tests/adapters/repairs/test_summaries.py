"""Reasoning items reach the Responses API with a summary."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("summaries"), "openai-responses") as one:
        yield one


ITEM: Json = {"type": "reasoning", "id": "rs_1", "encrypted_content": "c2VjcmV0"}


async def sent_items(rig: Rig, item: Json) -> tuple[list[Json], list[str]]:
    """Send a conversation with a reasoning item. Returns what the vendor gets, and the repairs."""
    said: Json = {"type": "message", "role": "assistant", "content": "a", "phase": "final_answer"}
    given = [{"role": "user", "content": "hi"}, item, said, {"role": "user", "content": "b"}]
    answer = await rig.responses("openai-responses", input=given)
    assert answer.status_code == 200, answer.text
    sent = cast("list[Json]", rig.sent["input"])
    assert [one for one in sent if one.get("type") != "reasoning"] == [given[0], *given[2:]]
    return [one for one in sent if one.get("type") == "reasoning"], repairs(answer)


async def test_encrypted_reasoning_without_a_summary_gets_an_empty_one(rig: Rig) -> None:
    sent, made = await sent_items(rig, ITEM)

    assert sent == [{**ITEM, "summary": []}]
    assert [one.rpartition(":")[2] for one in made] == ["summary"]


@pytest.mark.parametrize("summary", [[], [{"type": "summary_text", "text": "t"}]])
async def test_a_summary_is_sent_as_it_is(rig: Rig, summary: list[Json]) -> None:
    sent, made = await sent_items(rig, {**ITEM, "summary": summary})

    assert (sent, made) == ([{**ITEM, "summary": summary}], [])
