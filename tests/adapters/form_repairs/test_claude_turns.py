"""Turns that Claude refuses, in a history that interrupted agents send again and again."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
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

VENDORS = ["anthropic", "vertex-anthropic", "bedrock"]
SURFACES = ["chat", "messages", "responses"]
HI: Json = {"role": "user", "content": "hi"}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("turns"), *VENDORS) as one:
        yield one


def said(sent: Json) -> list[tuple[str, list[str]]]:
    """Return each turn's role and texts; a block without text is its kind."""
    found: list[tuple[str, list[str]]] = []
    for turn in cast("list[Json]", sent["messages"]):
        content = turn["content"]
        blocks = [{"text": content}] if isinstance(content, str) else cast("list[Json]", content)
        texts = [str(one.get("text", one.get("type", next(iter(one))))) for one in blocks]
        found.append((str(turn["role"]), texts))
    return found


async def send(
    rig: Rig, surface: str, model: str, turns: Sequence[Json], **more: object
) -> list[str]:
    """Send turns that are texts by an API, and return what was repaired."""
    if surface == "chat":
        answer = await rig.chat(model, messages=turns, **more)
    elif surface == "messages":
        answer = await rig.messages(model, messages=turns, **more)
    else:
        answer = await rig.responses(model, input=turns, **more)
    assert answer.status_code == 200, answer.text
    return repairs(answer)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("model", [*VENDORS, "bedrock/amazon.nova-pro-v1:0"])
async def test_a_blank_turn_of_the_user_says_so(rig: Rig, model: str, surface: str) -> None:
    made = await send(rig, surface, model, [{"role": "user", "content": " \n"}])

    assert said(rig.sent) == [("user", ["(no content)"])]
    assert any(one.endswith(":blank_text") for one in made)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("model", VENDORS)
async def test_an_answer_that_was_cancelled_is_no_turn(rig: Rig, model: str, surface: str) -> None:
    turns: list[Json] = [
        HI,
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "again"},
    ]
    made = await send(rig, surface, model, turns)

    assert [text for _, texts in said(rig.sent) for text in texts] == ["hi", "again"]
    assert any(one.endswith(":blank_text") for one in made)


@pytest.mark.parametrize("model", VENDORS)
async def test_blank_blocks_are_left_out_of_a_turn_and_of_the_instructions(
    rig: Rig, model: str
) -> None:
    blocks = [{"type": "text", "text": "\n"}, {"type": "text", "text": "hi"}]
    answer = await rig.messages(
        model,
        messages=[{"role": "user", "content": blocks}],
        system=[{"type": "text", "text": ""}, {"type": "text", "text": "Be brief."}],
    )

    assert answer.status_code == 200, answer.text
    assert said(rig.sent) == [("user", ["hi"])]
    assert [one["text"] for one in cast("list[Json]", rig.sent["system"])] == ["Be brief."]


@pytest.mark.parametrize("model", VENDORS)
async def test_a_tool_may_say_nothing(rig: Rig, model: str) -> None:
    call = {"type": "function", "id": "a", "function": {"name": "f", "arguments": "{}"}}
    turns: list[Json] = [
        HI,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": ""},
    ]
    tool = {"type": "function", "function": {"name": "f"}}
    made = await send(rig, "chat", model, turns, tools=[tool])

    repaired = model == "bedrock"
    assert made == (["messages[].content:blank_result"] if repaired else [])
    assert ("(no content)" in json.dumps(rig.sent)) is repaired


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("model", VENDORS)
async def test_a_conversation_begins_with_the_user(rig: Rig, model: str, surface: str) -> None:
    made = await send(rig, surface, model, [{"role": "assistant", "content": "Hello!"}, HI])

    assert said(rig.sent) == [
        ("user", ["(no content)"]),
        ("assistant", ["Hello!"]),
        ("user", ["hi"]),
    ]
    assert any(one.endswith(":user_first") for one in made)


@pytest.mark.parametrize("model", VENDORS)
async def test_instructions_alone_are_what_the_user_says(rig: Rig, model: str) -> None:
    made = await send(rig, "chat", model, [{"role": "system", "content": "Tell a joke."}])

    assert said(rig.sent) == [("user", ["Tell a joke."])]
    assert "system" not in rig.sent
    assert "messages[]:user_first" in made


BEGUN: list[Json] = [HI, {"role": "assistant", "content": "Once upon \n"}]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("model", VENDORS)
async def test_an_answer_begins_without_white_space_at_its_end(
    rig: Rig, model: str, surface: str
) -> None:
    made = await send(rig, surface, model, BEGUN)

    assert said(rig.sent)[-1] == ("assistant", ["Once upon"])
    assert any(one.endswith(":trailing_space") for one in made)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    "model",
    [
        "anthropic/claude-opus-4-6",
        "vertex-anthropic/claude-opus-4-7",
        "bedrock/us.anthropic.claude-sonnet-4-6",
    ],
)
async def test_a_model_that_continues_no_answer_is_asked_to(
    rig: Rig, model: str, surface: str
) -> None:
    made = await send(rig, surface, model, BEGUN)

    assert said(rig.sent)[1:] == [("assistant", ["Once upon \n"]), ("user", ["Continue."])]
    assert any(one.endswith(":prefill") for one in made)


async def test_an_unknown_model_gets_the_begun_answer(rig: Rig) -> None:
    await send(rig, "messages", "anthropic/my-alias", BEGUN)

    assert said(rig.sent)[-1] == ("assistant", ["Once upon"])


CUT_OFF = '{"path": "/home/u'
NOTHING: Json = {}
ODD: list[tuple[str, Json]] = [
    (CUT_OFF, {"arguments": CUT_OFF}),
    ("", NOTHING),
    ("null", NOTHING),
    ("[1, 2]", {"arguments": [1, 2]}),
    ('"{\\"a\\": 1}"', {"a": 1}),
    ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
    ('{"a": "\\ud83d\\ude00", "b": "\\\\ud83d"}', {"a": "\U0001f600", "b": "\\ud83d"}),
]


def made_with(sent: Json) -> object:
    """Return what the only call was made with."""
    for turn in cast("list[Mapping[str, list[Json]]]", sent["messages"]):
        for block in turn["content"] if not isinstance(turn["content"], str) else ():
            if "toolUse" in block:
                return cast("Json", block["toolUse"])["input"]
            if block.get("type") == "tool_use":
                return block["input"]
    raise AssertionError(sent)


@pytest.mark.parametrize(("arguments", "sent"), ODD)
@pytest.mark.parametrize("surface", ["chat", "responses"])
@pytest.mark.parametrize("model", VENDORS)
async def test_what_is_no_object_is_put_into_one(
    rig: Rig, model: str, surface: str, arguments: str, sent: object
) -> None:
    tool: Json = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    if surface == "chat":
        call = {"type": "function", "id": "a", "function": {"name": "f", "arguments": arguments}}
        turns: list[Json] = [
            HI,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "r"},
        ]
        answer = await rig.chat(
            model, messages=turns, tools=[{"type": "function", "function": tool}]
        )
    else:
        items: list[Json] = [
            HI,
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": arguments},
            {"type": "function_call_output", "call_id": "a", "output": "r"},
        ]
        answer = await rig.responses(model, input=items, tools=[{"type": "function", **tool}])

    assert answer.status_code == 200, answer.text
    assert made_with(rig.sent) == sent


@pytest.mark.parametrize("given", [CUT_OFF, [1, 2]])
@pytest.mark.parametrize("model", VENDORS)
async def test_an_input_that_is_no_object_is_put_into_one(
    rig: Rig, model: str, given: object
) -> None:
    turns: list[Json] = [
        HI,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]},
    ]
    cast("list[Json]", turns[1]["content"])[0]["input"] = given
    tool = {"name": "f", "input_schema": {"type": "object"}}
    answer = await rig.messages(model, messages=turns, tools=[tool])

    assert answer.status_code == 200, answer.text
    assert made_with(rig.sent) == {"arguments": given}
    assert "messages[].content[].input:call_arguments" in repairs(answer)


def failed(content: object) -> list[Json]:
    result = {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": content}
    call = {"type": "tool_use", "id": "a", "name": "f", "input": NOTHING}
    return [HI, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def result_of(sent: Json) -> Json:
    turns = cast("list[Mapping[str, list[Json]]]", sent["messages"])
    block = turns[-1]["content"][0]
    return cast("Json", block.get("toolResult", block))


TOOL: Json = {"name": "f", "input_schema": {"type": "object"}}
PICTURE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}


@pytest.mark.parametrize("content", ["", " ", [], [{"type": "text", "text": ""}]])
@pytest.mark.parametrize("model", VENDORS)
async def test_a_call_that_failed_silently_says_so(rig: Rig, model: str, content: object) -> None:
    answer = await rig.messages(model, messages=failed(content), tools=[TOOL])

    assert answer.status_code == 200, answer.text
    sent = result_of(rig.sent)["content"]
    told = sent if isinstance(sent, str) else cast("list[Json]", sent)[0]["text"]
    assert told == "The call failed without output."


@pytest.mark.parametrize("model", VENDORS)
async def test_a_failed_calls_image_goes_without_the_flag(rig: Rig, model: str) -> None:
    answer = await rig.messages(model, messages=failed([PICTURE]), tools=[TOOL])

    assert answer.status_code == 200, answer.text
    sent = result_of(rig.sent)
    assert not {"is_error", "status"} & sent.keys()
    assert len(cast("list[Json]", sent["content"])) == 1
    assert "messages[].content[].is_error" in dropped(answer)
