"""Stop strings that a vendor does not take end the answer nevertheless."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs
from tests.stand_ins.provider import Answer, Received, delta_body

pytestmark = pytest.mark.anyio

TWELVE = [f"<{number}>" for number in range(12)]
LAST = TWELVE[-1]
BEFORE, AFTER = "one two ", " three"


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("stops")
    async with one_of_each(folder, "openai", "xai", "groq", "deepseek", "gemini") as one:
        yield one


async def talks(request: Received, answer: Answer) -> None:
    """Stream a text with the last stop string in it, in pieces, and then wait for the reader."""
    pieces = (BEFORE, LAST[:2], LAST[2:] + AFTER)
    await answer.begin_stream()
    for piece in pieces:
        if "streamGenerateContent" in request.path:
            content = {"role": "model", "parts": [{"text": piece}]}
            await answer.event({"candidates": [{"content": content}]})
        else:
            await answer.text(piece)
    await answer.gone.wait()


async def asked(rig: Rig, surface: str, model: str, *, stream: bool, stop: list[str]) -> str:
    """Return the text of an answer to a request with these stop strings."""
    answer = await post(rig, surface, model, stream=stream, stop=stop)
    assert answer.status_code == 200, answer.text
    if not stream:
        body = cast("Json", answer.json())
        if surface == "chat":
            return str(cast("Json", cast("list[Json]", body["choices"])[0]["message"])["content"])
        return str(cast("list[Json]", body["content"])[0]["text"])
    lines = [line[5:].strip() for line in answer.text.splitlines() if line.startswith("data:")]
    frames = [cast("Json", json.loads(line)) for line in lines if line.startswith("{")]
    if surface == "chat":
        choices = [one for frame in frames for one in cast("list[Json]", frame["choices"])]
        return "".join(str(cast("Json", one["delta"]).get("content") or "") for one in choices)
    deltas = [cast("Json", frame.get("delta") or {}) for frame in frames]
    return "".join(str(one.get("text") or "") for one in deltas)


async def post(
    rig: Rig, surface: str, model: str, *, stream: bool, stop: list[str]
) -> httpx.Response:
    if surface == "chat":
        return await rig.chat(model, stop=stop, stream=stream)
    return await rig.messages(model, stop_sequences=stop, stream=stream)


def sent_stops(body: Json) -> list[str]:
    inner = cast("Json", body.get("generationConfig") or {})
    return cast("list[str]", body.get("stop") or inner.get("stopSequences") or [])


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("surface", ["chat", "messages"])
@pytest.mark.parametrize(
    ("model", "most"),
    [("groq", 4), ("gemini", 5), ("openai/gpt-5.5", 0), ("openai/o3", 0), ("xai/grok-4", 0)],
)
async def test_a_vendor_gets_as_many_as_it_takes_and_the_gateway_stops_at_all(
    rig: Rig, model: str, most: int, surface: str, stream: bool
) -> None:
    before, rig.vendor.behaviour = rig.vendor.behaviour, talks
    try:
        text = await asked(rig, surface, model, stream=stream, stop=TWELVE)
    finally:
        rig.vendor.behaviour = before

    assert text == BEFORE
    assert sent_stops(rig.sent) == TWELVE[:most]


@pytest.mark.parametrize("model", ["groq", "openai/gpt-5.5", "xai/grok-4-fast-reasoning"])
@pytest.mark.parametrize("surface", ["chat", "messages"])
async def test_an_answer_without_any_of_them_is_complete(
    rig: Rig, model: str, surface: str
) -> None:
    assert await asked(rig, surface, model, stream=False, stop=TWELVE) == "hello"


async def test_the_client_hears_which_rule_it_was_and_where_it_stopped(rig: Rig) -> None:
    limited = await rig.chat("groq", stop=TWELVE)
    refused = await rig.messages("xai/grok-4", stop_sequences=["lo"])

    assert repairs(limited) == ["stop:stop_limit"]
    assert repairs(refused) == ["stop_sequences:stop"]
    assert (refused.json()["stop_reason"], refused.json()["stop_sequence"]) == (
        "stop_sequence",
        "lo",
    )


@pytest.mark.parametrize(
    ("model", "stop"),
    [
        ("deepseek", TWELVE),
        ("groq", TWELVE[:4]),
        ("openai/gpt-4o", TWELVE[:4]),
        ("openai/gpt-5-chat-latest", ["lo"]),
        ("xai/grok-3", ["lo"]),
        ("xai/grok-4-fast-non-reasoning", ["lo"]),
        ("openai/my-own-model", TWELVE),
    ],
)
async def test_what_the_vendor_takes_is_left_to_it(rig: Rig, model: str, stop: list[str]) -> None:
    answer = await rig.chat(model, stop=stop)

    assert (answer.status_code, repairs(answer)) == (200, [])
    assert rig.sent["stop"] == stop
    assert "stream" not in rig.sent


async def two(request: Received, answer: Answer) -> None:
    """Stream two choices, of which the first has a stop string in it."""
    await answer.begin_stream()
    for index, text in ((0, "one lo two"), (1, "three"), (0, " four"), (1, " five")):
        body = delta_body({"content": text})
        choice = cast("list[Json]", body["choices"])[0]
        await answer.event({**body, "choices": [{**choice, "index": index}]})
    body = delta_body({}, "length")
    choice = cast("list[Json]", body["choices"])[0]
    await answer.event({**body, "choices": [{**choice, "index": 1}]})
    await answer.end_stream("stop")


async def test_each_of_several_choices_stops_by_itself(rig: Rig) -> None:
    before, rig.vendor.behaviour = rig.vendor.behaviour, two
    try:
        answer = await rig.chat("openai/gpt-5.5", stop=["lo"], n=2)
    finally:
        rig.vendor.behaviour = before

    found = [
        (choice["message"]["content"], choice["finish_reason"])
        for choice in answer.json()["choices"]
    ]
    assert found == [("one ", "stop"), ("three five", "length")]


async def test_nothing_is_lost_so_a_strict_model_takes_it(tmp_path: Path) -> None:
    strict = ", on_repair: reject, require: true"
    async with one_of_each(tmp_path, "openai", more=strict) as one:
        answer = await one.chat("openai/gpt-5.5", stop=["lo"])

    assert (answer.status_code, repairs(answer)) == (200, ["stop:stop"])
    assert answer.json()["choices"][0]["message"]["content"] == "hel"
