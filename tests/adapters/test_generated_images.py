"""Generated images that come back without their bytes are left out of a conversation."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, dropped, one_of_each

pytestmark = pytest.mark.anyio

DRAW: Json = {"role": "user", "content": "Draw a cat."}
AGAIN: Json = {"role": "user", "content": "Make it orange."}
EMPTY: Json = {"type": "image_generation_call", "id": "ig_1", "status": "completed"}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("images")
    async with one_of_each(folder, "openai-responses", "openrouter-responses", "openai") as one:
        yield one


def kinds(rig: Rig) -> list[object]:
    items = cast("list[Json]", rig.sent["input"])
    return [one.get("type", "message") for one in items]


@pytest.mark.parametrize("model", ["openai-responses", "openrouter-responses"])
@pytest.mark.parametrize("result", [None, ""])
async def test_an_image_without_its_bytes_is_left_out(
    rig: Rig, model: str, result: str | None
) -> None:
    answer = await rig.responses(model, input=[DRAW, {**EMPTY, "result": result}, AGAIN])

    assert answer.status_code == 200, answer.text
    assert "image_generation_call" not in kinds(rig)
    assert dropped(answer) == ["input[].content[]"]


async def test_an_image_with_its_bytes_stays(rig: Rig) -> None:
    image = {**EMPTY, "result": "iVBORw0KGgo="}
    answer = await rig.responses("openai-responses", input=[DRAW, image, AGAIN])

    assert answer.status_code == 200, answer.text
    assert kinds(rig).count("image_generation_call") == 1
    assert dropped(answer) == []


async def test_a_vendor_without_such_items_gets_the_rest(rig: Rig) -> None:
    answer = await rig.responses("openai", input=[DRAW, EMPTY, AGAIN])

    assert answer.status_code == 200, answer.text
    sent = cast("list[Json]", rig.sent["messages"])
    assert [one["role"] for one in sent] == ["user", "user"]
