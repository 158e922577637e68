"""OpenAI's standard service tier goes to a vendor under the name that the vendor gives it."""

from collections.abc import AsyncGenerator

import pytest

from tests.adapters.repairs.one_of_each import (
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("tiers")
    async with one_of_each(folder, "openai", "mistral", "groq") as one:
        yield one


async def test_the_standard_tier_is_standard_only_at_mistral(rig: Rig) -> None:
    answer = await rig.chat("mistral", service_tier="default")

    assert answer.status_code == 200, answer.text
    assert rig.sent["service_tier"] == "standard_only"
    assert repairs(answer) == ["service_tier:service_tier"]


async def test_the_standard_tier_of_a_responses_client_is_mistrals(rig: Rig) -> None:
    answer = await rig.responses("mistral", service_tier="default")

    assert answer.status_code == 200, answer.text
    assert rig.sent["service_tier"] == "standard_only"


async def test_the_standard_tier_is_what_groq_does_without_any(rig: Rig) -> None:
    answer = await rig.chat("groq", service_tier="default")

    assert answer.status_code == 200, answer.text
    assert "service_tier" not in rig.sent
    assert dropped(answer) == ["service_tier"]


@pytest.mark.parametrize("model", ["openai", "mistral", "groq"])
async def test_other_tiers_are_sent_as_the_client_names_them(rig: Rig, model: str) -> None:
    answer = await rig.chat(model, service_tier="auto")

    assert answer.status_code == 200, answer.text
    assert rig.sent["service_tier"] == "auto"
    assert repairs(answer) == []
