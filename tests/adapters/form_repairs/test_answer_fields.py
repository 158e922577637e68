"""What only answers have goes back to the backend that reads it, and to no other."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, dropped, one_of_each

pytestmark = pytest.mark.anyio

STRICT = ("openai", "azure", "mistral", "groq", "cerebras", "deepseek", "vllm", "xai", "together")
ANSWER: Json = {
    "role": "assistant",
    "content": "Rainy.",
    "refusal": None,
    "audio": None,
    "function_call": None,
    "parsed": None,
    "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.test"}}],
    "citations": ["https://a.test"],
    "content_blocks": [{"type": "text", "text": "Rainy."}],
    "gemini_parts": [{"text": "Rainy."}],
    "output_items": [{"type": "message"}],
    "provider_specific_fields": {"x": 1},
}
CALLED: Json = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call00001",
            "type": "function",
            "index": 0,
            "function": {"name": "f", "arguments": "{}", "parsed_arguments": {}},
            "extra_content": {"google": {"thought_signature": "c2ln"}},
        }
    ],
}
TURNS: list[Json] = [
    {"role": "user", "content": "hi"},
    ANSWER,
    {"role": "user", "content": "again"},
    CALLED,
    {"role": "tool", "tool_call_id": "call00001", "content": "r"},
]


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("answers")
    async with one_of_each(folder, *STRICT, "openrouter", "gemini", "anthropic") as one:
        yield one


def assistants(rig: Rig) -> list[Json]:
    return [one for one in cast("list[Json]", rig.sent["messages"]) if one["role"] == "assistant"]


@pytest.mark.parametrize("model", STRICT)
async def test_a_vendor_gets_only_what_a_request_has(rig: Rig, model: str) -> None:
    name = f"{model}/gpt-5.5" if model == "openai" else model
    answer = await rig.chat(name, messages=TURNS)

    assert answer.status_code == 200, answer.text
    said, called = assistants(rig)
    assert said == {"role": "assistant", "content": "Rainy."}
    call = cast("list[Json]", called["tool_calls"])[0]
    assert call.keys() == {"id", "type", "function"}
    assert cast("Json", call["function"]).keys() == {"name", "arguments"}
    assert "messages[].annotations" in dropped(answer)
    assert "messages[].tool_calls[].extra_content" in dropped(answer)


async def test_an_unknown_server_gets_what_another_gateway_may_read(rig: Rig) -> None:
    await rig.chat("openai/qwen3", messages=TURNS)

    said, called = assistants(rig)
    assert "provider_specific_fields" in said
    assert said.keys().isdisjoint({"content_blocks", "gemini_parts", "output_items"})
    assert "extra_content" not in cast("list[Json]", called["tool_calls"])[0]


async def test_googles_proof_goes_to_a_gemini_behind_openais_dialect(rig: Rig) -> None:
    await rig.chat("openai/gemini-3.5-flash", messages=TURNS)

    call = cast("list[Json]", assistants(rig)[1]["tool_calls"])[0]
    assert call["extra_content"] == {"google": {"thought_signature": "c2ln"}}


async def test_openrouter_gets_its_own_annotations(rig: Rig) -> None:
    await rig.chat("openrouter", messages=TURNS)

    assert "annotations" in assistants(rig)[0]


@pytest.mark.parametrize("other", [[], [{"type": "hologram"}]], ids=["alone", "with another"])
async def test_mistral_gets_its_own_references(rig: Rig, other: list[Json]) -> None:
    reference: Json = {"type": "reference", "reference_ids": [17]}
    said: Json = {"role": "assistant", "content": "Rainy.", "content_parts": [reference, *other]}
    user: Json = {"role": "user", "content": "hi"}

    answer = await rig.chat("mistral", messages=[user, said, user])

    assert answer.status_code == 200, answer.text
    (turn,) = assistants(rig)
    text: Json = {"type": "text", "text": "Rainy."}
    assert turn["content"] == ("Rainy." if other else [text, reference])
    assert dropped(answer) == (["messages[].content_parts"] if other else [])


@pytest.mark.parametrize("model", ["azure", "openai", "mistral", "openrouter"])
async def test_what_google_and_azure_say_of_answers_stays_behind(rig: Rig, model: str) -> None:
    facts = ["citation_metadata", "context", "grounding_metadata", "safety_ratings"]
    said: Json = {"role": "assistant", "content": "Rainy.", **{key: {"x": 1} for key in facts}}
    user: Json = {"role": "user", "content": "hi"}
    name = f"{model}/gpt-5.5" if model == "openai" else model

    answer = await rig.chat(name, messages=[user, said, user])

    assert answer.status_code == 200, answer.text
    assert assistants(rig) == [{"role": "assistant", "content": "Rainy."}]
    assert dropped(answer) == [f"messages[].{one}" for one in facts]


async def test_a_proof_from_the_messages_api_goes_to_google_alone(rig: Rig) -> None:
    signed = "google-gemini-v1:call:call00001:c2ln"
    blocks: list[Json] = [
        {"type": "thinking", "thinking": "", "signature": signed},
        {"type": "tool_use", "id": "call00001", "name": "f", "input": {}},
    ]
    result = {"type": "tool_result", "tool_use_id": "call00001", "content": "r"}
    turns: list[Json] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [result]},
    ]
    for model in ("openai/gpt-5.5", *STRICT[1:]):
        await rig.messages(model, messages=turns)
        assert "c2ln" not in rig.vendor.requests[-1].body.decode(), model


async def test_reasoning_stays_behind_if_the_model_is_openais(rig: Rig) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "google-gemini-v1:c2ln"}
    said = {"type": "text", "text": "Rainy."}
    turns: list[Json] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [thinking, said]},
        {"role": "user", "content": "again"},
    ]
    answer = await rig.messages("openai/gpt-5.5", messages=turns)

    assert assistants(rig) == [{"role": "assistant", "content": "Rainy."}]
    assert "messages.reasoning" in dropped(answer)


@pytest.mark.parametrize("model", ["groq", "openai"])
async def test_nulls_of_a_dumped_message_are_not_sent(rig: Rig, model: str) -> None:
    """As `model_dump()` of OpenAI's Python client writes an answer."""
    dumped: Json = {
        "role": "assistant",
        "content": "Rainy.",
        "name": None,
        "refusal": None,
        "audio": None,
        "function_call": None,
        "tool_calls": None,
    }
    named: Json = {"role": "user", "content": "hi", "name": None}
    await rig.chat(model, messages=[named, dumped, {**dumped, "tool_calls": list[Json]()}, named])

    sent = cast("list[Json]", rig.sent["messages"])
    assert sent[0] == {"role": "user", "content": "hi"}
    assert sent[1] == sent[2] == {"role": "assistant", "content": "Rainy."}
