"""What single models of Gemini, and Cohere's, do not take is sent in another form or left out."""

import json
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

SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
FORM: Json = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
TOOL: Json = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("gemini")
    async with one_of_each(folder, "gemini", "cohere") as one:
        yield one


def config(rig: Rig) -> Json:
    return cast("Json", rig.sent.get("generationConfig") or {})


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        ("gemini-3-pro-preview", "minimal", {"thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "MEDIUM"}),
        ("gemini-3.5-flash", "none", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.8-flash", "minimal", {"thinkingLevel": "LOW"}),
        ("gemini-3.5-flash", "max", {"thinkingLevel": "HIGH"}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 1024}),
        ("gemini-2.5-flash", "xhigh", {"thinkingBudget": 24576}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
    ],
)
@pytest.mark.parametrize("surface", ["chat", "responses"])
async def test_the_nearest_degree_of_effort_is_sent(
    rig: Rig, surface: str, model: str, asked: str, sent: Json
) -> None:
    if surface == "chat":
        answer = await rig.chat(f"gemini/{model}", reasoning_effort=asked)
    else:
        answer = await rig.responses(f"gemini/{model}", reasoning={"effort": asked})

    assert answer.status_code == 200, answer.text
    thinking = cast("Json", config(rig)["thinkingConfig"])
    assert {name: thinking[name] for name in sent} == sent


async def test_a_model_that_does_not_think_gets_no_effort(rig: Rig) -> None:
    answer = await rig.chat("gemini/gemini-2.0-flash", reasoning_effort="low")

    assert "thinkingConfig" not in config(rig)
    assert "reasoning_effort" in dropped(answer)


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.5-flash"])
async def test_penalties_are_left_out_and_named(rig: Rig, model: str) -> None:
    answer = await rig.chat(f"gemini/{model}", presence_penalty=0.5, frequency_penalty=0)

    assert answer.status_code == 200, answer.text
    assert config(rig) == {}
    assert "presence_penalty" in dropped(answer)


async def test_an_older_model_takes_penalties(rig: Rig) -> None:
    await rig.chat("gemini/gemini-2.0-flash", presence_penalty=0.5)

    assert config(rig) == {"presencePenalty": 0.5}


@pytest.mark.parametrize("model", ["gemini/gemini-2.5-flash", "cohere/command-a-03-2025"])
async def test_a_format_next_to_functions_is_described(rig: Rig, model: str) -> None:
    answer = await rig.chat(model, tools=[TOOL], response_format=FORM)

    assert answer.status_code == 200, answer.text
    sent = json.dumps(rig.sent)
    assert "responseMimeType" not in sent
    assert "response_format" not in sent
    assert "valid for this JSON schema" in sent
    assert "response_format:format_or_tools" in repairs(answer)


async def test_a_newer_model_takes_both(rig: Rig) -> None:
    answer = await rig.chat("gemini/gemini-3.5-flash", tools=[TOOL], response_format=FORM)

    assert config(rig)["responseJsonSchema"] == SCHEMA
    assert repairs(answer) == []


async def test_googles_own_tools_stay_out_next_to_functions_at_an_older_model(rig: Rig) -> None:
    search = {"type": "google_search"}
    answer = await rig.chat("gemini/gemini-2.5-flash", tools=[TOOL, search])
    alone = cast("list[Json]", rig.sent["tools"])
    await rig.chat("gemini/gemini-2.5-flash", tools=[search])
    own = rig.sent["tools"]
    await rig.chat("gemini/gemini-3.5-flash", tools=[TOOL, search])
    both = cast("list[Json]", rig.sent["tools"])

    assert [list(one) for one in alone] == [["functionDeclarations"]]
    assert "tools.opaque" in dropped(answer)
    assert own == [{"googleSearch": {}}]
    assert len(both) == 2
