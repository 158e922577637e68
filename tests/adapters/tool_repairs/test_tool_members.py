"""Members of a function that only Anthropic's own API knows stay behind at Vertex AI."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, dropped, one_of_each

pytestmark = pytest.mark.anyio

SCHEMA: Json = {"type": "object", "properties": {}}
EAGER: Json = {"eager_input_streaming": True, "cache_control": {"type": "ephemeral"}}
FUNCTION: Json = {"name": "f", "parameters": SCHEMA}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("members")
    async with one_of_each(folder, "vertex-anthropic", "anthropic") as one:
        yield one


@pytest.mark.parametrize(
    ("surface", "tool"),
    [
        ("messages", {"name": "f", "input_schema": SCHEMA, **EAGER}),
        ("chat", {"type": "function", "function": FUNCTION, **EAGER}),
        ("chat", {"type": "function", "function": {**FUNCTION, **EAGER}}),
    ],
)
async def test_vertex_gets_what_it_knows_and_anthropic_all(
    rig: Rig, surface: str, tool: Json
) -> None:
    send = rig.messages if surface == "messages" else rig.chat
    answer = await send("vertex-anthropic", tools=[tool])
    (known,) = cast("list[Json]", rig.sent["tools"])
    await send("anthropic", tools=[tool])
    (every,) = cast("list[Json]", rig.sent["tools"])

    assert answer.status_code == 200, answer.text
    assert ("eager_input_streaming" in known, "cache_control" in known) == (False, True)
    assert any(one.endswith("eager_input_streaming") for one in dropped(answer))
    assert every["eager_input_streaming"] is True
