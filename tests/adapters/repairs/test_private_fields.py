"""A key of the vendor's cache is sent as a hash that belongs to the client's key."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.adapters.repairs.one_of_each import (
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio

KEY_A, KEY_B = "key-of-team-a-0123456789", "key-of-team-b-0123456789"
KEEPERS = ("openai-responses", "azure-responses", "mistral", "moonshot", "openrouter")
OTHERS = ("anthropic", "cohere", "deepseek", "gemini", "vllm")


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("private")
    async with one_of_each(folder, "openai", *KEEPERS, *OTHERS, "fireworks", "sglang") as one:
        yield one


@pytest.mark.parametrize("model", ["openai", *KEEPERS])
@pytest.mark.parametrize("surface", ["chat", "responses"])
async def test_equal_keys_of_one_client_name_the_same_cache_and_anothers_key_names_another(
    rig: Rig, model: str, surface: str
) -> None:
    send = rig.chat if surface == "chat" else rig.responses
    sent: list[object] = []
    for key, value in ((KEY_A, "s1"), (KEY_A, "s1"), (KEY_A, "s2"), (KEY_B, "s1")):
        answer = await send(model, prompt_cache_key=value, key=key)
        assert answer.status_code == 200, answer.text
        assert "prompt_cache_key:private_value" in repairs(answer)
        assert "prompt_cache_key" not in dropped(answer)
        sent.append(rig.sent["prompt_cache_key"])

    first, again, other, of_another = sent
    assert first == again
    assert len({first, other, of_another, "s1"}) == 4
    assert all(isinstance(one, str) and len(one) == 32 for one in sent)


@pytest.mark.parametrize("model", OTHERS)
async def test_a_vendor_without_such_a_key_gets_none_and_the_header_says_so(
    rig: Rig, model: str
) -> None:
    answer = await rig.chat(model, prompt_cache_key="s1")

    assert answer.status_code == 200, answer.text
    assert dropped(answer) == ["prompt_cache_key"]
    assert b"prompt_cache_key" not in rig.vendor.requests[-1].body


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ("openai", "safety_identifier"),
        ("fireworks", "prompt_cache_isolation_key"),
        ("sglang", "extra_key"),
        ("sglang", "cache_salt"),
        ("vllm", "cache_salt"),
    ],
)
async def test_other_fields_that_reach_into_shared_state_are_hashed_alike(
    rig: Rig, model: str, field: str
) -> None:
    answer = await rig.chat(model, **{field: "mine"})

    assert answer.status_code == 200, answer.text
    assert repairs(answer) == [f"{field}:private_value"]
    assert rig.sent[field] != "mine"


async def test_an_unknown_server_gets_the_key_only_for_openais_models(rig: Rig) -> None:
    await rig.chat("openai/gpt-5.5", prompt_cache_key="s1")
    openais = rig.sent
    answer = await rig.chat("openai/llama-3", prompt_cache_key="s1")

    assert "prompt_cache_key" in openais
    assert "prompt_cache_key" not in rig.sent
    assert dropped(answer) == ["prompt_cache_key"]


async def test_how_long_a_cache_is_kept_never_ends_a_request(rig: Rig) -> None:
    kept = await rig.responses("openai-responses", prompt_cache_retention="24h")
    usual = await rig.responses("openai-responses", prompt_cache_retention="in_memory")

    assert (kept.status_code, dropped(kept)) == (200, ["prompt_cache_retention"])
    assert (usual.status_code, rig.sent["prompt_cache_retention"]) == (200, "in_memory")


@pytest.mark.parametrize("value", [7, "", None, "x" * 5000])
async def test_what_is_no_key_is_not_hashed(rig: Rig, value: object) -> None:
    answer = await rig.chat("openai/gpt-5.5", prompt_cache_key=value)

    assert answer.status_code == 200, answer.text
    assert "prompt_cache_key" not in rig.sent
    assert not repairs(answer)


@pytest.mark.parametrize(("rule", "sent"), [("allow", "s1"), ("deny", None)])
async def test_the_operators_rules_come_first(tmp_path: Path, rule: str, sent: str | None) -> None:
    fields = f", client_fields: {{{rule}: [prompt_cache_key]}}"
    async with one_of_each(tmp_path, "openai", openai=fields) as rig:
        answer = await rig.chat("openai", prompt_cache_key="s1")
        received = rig.vendor.requests[-1].json if rig.vendor.requests else {}

    assert received.get("prompt_cache_key") == sent
    assert not repairs(answer)
