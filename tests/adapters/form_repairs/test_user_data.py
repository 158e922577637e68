"""Names of users and metadata beyond a vendor's limits are sent within them."""

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

OPENAIS = ("openai/gpt-4.1", "azure", "openai-responses")
LONG = '{"device_id":"' + "d" * 64 + '","account_uuid":"","session_id":"' + "s" * 36 + '"}'


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("users")
    others = ("openrouter", "siliconflow", "xai")
    async with one_of_each(folder, "openai", "azure", "openai-responses", *others) as one:
        yield one


@pytest.mark.parametrize("model", [*OPENAIS, "openrouter", "siliconflow"])
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
async def test_a_long_name_of_a_user_is_sent_as_a_hash(rig: Rig, surface: str, model: str) -> None:
    names: list[object] = []
    for user in (LONG, LONG, f"{LONG}2"):
        if surface == "messages":
            answer = await rig.messages(model, metadata={"user_id": user})
        else:
            answer = await (rig.chat if surface == "chat" else rig.responses)(model, user=user)
        assert answer.status_code == 200, answer.text
        assert any(one.endswith(":long_user") for one in repairs(answer))
        names.append(rig.sent["user"])

    assert names[0] == names[1] != names[2]
    assert all(len(str(name)) == 64 for name in names)


async def test_a_short_name_is_sent_as_it_is(rig: Rig) -> None:
    answer = await rig.chat("azure", user="ann")

    assert (rig.sent["user"], repairs(answer)) == ("ann", [])


@pytest.mark.parametrize("model", [*OPENAIS, "openrouter", "xai"])
async def test_metadata_beyond_the_limits_is_left_out_and_named(rig: Rig, model: str) -> None:
    many = {f"k{number}": "v" for number in range(20)}
    answer = await rig.chat(model, metadata={"long": "x" * 600, "l" * 65: "v", "n": 5, **many})

    sent = cast("Json", rig.sent["metadata"])
    assert answer.status_code == 200, answer.text
    assert len(sent) == 16
    assert sent["n"] == "5"
    assert sent.keys().isdisjoint({"long", "l" * 65})
    assert "metadata:metadata_limit" in repairs(answer)
    assert "metadata" in dropped(answer)


async def test_metadata_within_the_limits_is_sent_as_it_is(rig: Rig) -> None:
    answer = await rig.chat("azure", metadata={"team": "a"})

    assert (rig.sent["metadata"], repairs(answer)) == ({"team": "a"}, [])
