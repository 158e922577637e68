"""Names of people become names in the alphabet of OpenAI's models."""

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


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("names")
    async with one_of_each(folder, "openai", "azure", "openrouter", "groq", "xai") as one:
        yield one


def first(rig: Rig) -> Json:
    return cast("list[Json]", rig.sent["messages"])[0]


@pytest.mark.parametrize("model", ["openai", "azure", "openrouter/openai/gpt-5.5"])
@pytest.mark.parametrize(
    ("name", "sent"),
    [("Ann Bee", "Ann_Bee"), ("Zoë <z@a.test>", "Zo_z_a_test_"), ("n" * 70, "n" * 64)],
)
async def test_a_name_is_written_in_the_vendors_alphabet(
    rig: Rig, model: str, name: str, sent: str
) -> None:
    answer = await rig.chat(model, messages=[{"role": "user", "content": "hi", "name": name}])

    assert answer.status_code == 200, answer.text
    assert first(rig)["name"] == sent
    assert repairs(answer) == ["messages[].name:message_name_form"]


async def test_a_name_without_any_of_its_letters_is_left_out(rig: Rig) -> None:
    answer = await rig.chat("openai", messages=[{"role": "user", "content": "hi", "name": "小明"}])

    assert answer.status_code == 200, answer.text
    assert first(rig) == {"role": "user", "content": "hi"}
    assert repairs(answer) == ["messages[].name:message_name_form"]


async def test_a_name_in_the_alphabet_stays(rig: Rig) -> None:
    turn: Json = {"role": "user", "content": "hi", "name": "ann-bee_2"}
    answer = await rig.chat("openai", messages=[turn])

    assert first(rig) == turn
    assert repairs(answer) == []


async def test_groq_gets_no_names(rig: Rig) -> None:
    answer = await rig.chat("groq", messages=[{"role": "user", "content": "hi", "name": "ann"}])

    assert answer.status_code == 200, answer.text
    assert first(rig) == {"role": "user", "content": "hi"}
    assert dropped(answer) == ["messages[].name"]


async def test_xai_gets_the_names_of_users_alone(rig: Rig) -> None:
    user: Json = {"role": "user", "content": "hi", "name": "ann"}
    host: Json = {"role": "system", "content": "Be kind."}
    answer = await rig.chat("xai", messages=[{**host, "name": "host"}, user])

    assert answer.status_code == 200, answer.text
    assert rig.sent["messages"] == [host, user]
    assert dropped(answer) == ["messages[].name"]
