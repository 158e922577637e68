"""Every vendor behind the gateway gives OpenAI's client the same result."""

import json
from collections.abc import AsyncGenerator, Sequence

import openai
import pytest

from strowger_gateway.adapters.registry import BUILTIN
from tests.gateway.backends.vendors.backend import (
    EMBEDS,
    KEY,
    Answered,
    Setting,
    answering,
    every_vendor,
)
from tests.gateway.backends.vendors.dialect import Call, Json, Said, Turn
from tests.gateway.backends.vendors.rows import ALIKE, SILENT, VENDORS, Vendor
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

PIXEL = "iVBORw0KGgo="
SCHEMA: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
PLACE: Json = {"type": "object", "properties": {"at": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": PLACE}},
    {"type": "function", "function": {"name": "clock"}},
]
THOUGHT, PROOF = "Hm, let me see.", "cHJvb2Y="
CHATTING = [one for one in VENDORS if one.task == "chat"]


def which(condition: Sequence[Vendor]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vendor", condition, ids=lambda one: one.name)


of_all = which(VENDORS)
of_chats = which(CHATTING)
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with every_vendor(tmp_path_factory.mktemp("run"), failing=False) as one:
        yield one


def test_no_vendor_is_left_out() -> None:
    assert {one.name for one in VENDORS} | ALIKE | SILENT == set(BUILTIN)


@of_all
@either_way
async def test_an_answer_has_its_text_its_end_and_its_usage(
    setting: Setting, vendor: Vendor, stream: bool
) -> None:
    setting.plays(answering(vendor, Said()))

    answer = await setting.ask(vendor, stream=stream)

    assert (answer.text, answer.finish) == ("Hello 🌍", "stop")
    assert tuple(answer.usages) == vendor.usages
    (turn,) = setting.received(vendor).turns
    assert (turn.role, turn.text) == ("user", "hi")
    (request,) = setting.server.requests
    assert KEY in request.headers[vendor.key]
    assert stream or request.path == vendor.target


@of_all
async def test_a_stream_has_usage_only_on_request(setting: Setting, vendor: Vendor) -> None:
    setting.plays(answering(vendor, Said()))

    answer = await setting.ask(vendor, stream=True, usage=False)

    assert answer.text == "Hello 🌍"
    assert answer.usages == []


MADE = {
    "single": (Call(id="abcdefgh1", name="weather", arguments={"at": "A"}, proof=PROOF),),
    "parallel": (
        Call(id="abcdefgh1", name="weather", arguments={"at": "A"}, proof=PROOF),
        Call(id="abcdefgh2", name="weather", arguments={"at": "B"}),
    ),
    "no argument": (Call(id="abcdefgh1", name="clock", proof=PROOF),),
}


@of_chats
@either_way
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
async def test_tools_are_called_and_their_results_go_back(
    setting: Setting, vendor: Vendor, stream: bool, made: tuple[Call, ...]
) -> None:
    setting.plays(answering(vendor, Said(text=(), calls=made)))
    asked = await setting.ask(vendor, {"tools": TOOLS}, stream=stream)
    setting.plays(answering(vendor, Said()))

    answer = await setting.ask(vendor, fed_back(asked), stream=stream)

    assert asked.finish == "tool_calls"
    assert [(name, arguments) for _, name, arguments in asked.calls] == [
        (one.name, one.arguments) for one in made
    ]
    assert answer.text == "Hello 🌍"
    received = setting.received(vendor)
    assert received.tools == ("weather", "clock")
    turns = [one for one in received.turns if one.calls]
    assert [(one.name, one.arguments) for one in turns[0].calls] == [
        (one.name, one.arguments) for one in made
    ]
    ids = [one.id for one in turns[0].calls]
    assert ids == [one.id for one in made] or not vendor.call_ids
    assert len(set(ids)) == len(made)
    assert results(received.turns) == [(id, "21 degrees") for id in ids]
    assert vendor.name != "gemini" or turns[0].calls[0].proof == PROOF


def fed_back(asked: Answered) -> Json:
    """The conversation with its calls and what came of them."""
    reported = [
        {"role": "tool", "tool_call_id": id, "content": "21 degrees"} for id, _, _ in asked.calls
    ]
    return {
        "messages": [{"role": "user", "content": "hi"}, asked.message, *reported],
        "tools": TOOLS,
    }


def results(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [result for one in turns for result in one.results]


@of_chats
@either_way
async def test_an_answer_keeps_to_a_schema(setting: Setting, vendor: Vendor, stream: bool) -> None:
    setting.plays(answering(vendor, Said(text=('{"a"', ": 1}"))))
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}

    answer = await setting.ask(vendor, {"response_format": form}, stream=stream)

    assert json.loads(answer.text) == {"a": 1}
    assert setting.received(vendor).schema == SCHEMA


@of_chats
async def test_an_image_travels_with_its_message(setting: Setting, vendor: Vendor) -> None:
    setting.plays(answering(vendor, Said()))
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    content = [{"type": "text", "text": "What is it?"}, image]

    answer = await setting.ask(
        vendor, {"messages": [{"role": "user", "content": content}]}, stream=False
    )

    assert answer.text == "Hello 🌍"
    assert [(one.text, one.images) for one in setting.received(vendor).turns] == [
        ("What is it?", (PIXEL,))
    ]


@of_chats
@either_way
async def test_thoughts_come_out_and_go_back_as_they_were(
    setting: Setting, vendor: Vendor, stream: bool
) -> None:
    setting.plays(answering(vendor, Said(thought=THOUGHT, proof=PROOF)))
    first = await setting.ask(vendor, stream=stream)
    user = {"role": "user", "content": "hi"}

    await setting.ask(vendor, {"messages": [user, first.message, user]}, stream=stream)

    assert first.text == "Hello 🌍"
    assert first.message["reasoning_content"] == THOUGHT
    _, said, _ = setting.received(vendor).turns
    assert said.text == "Hello 🌍"
    if vendor.name == "azure":  # its deployments refuse unknown members of a message
        assert said.thoughts == ()
        return
    assert said.thoughts == ((THOUGHT, PROOF if vendor.proofs else ""),)


@which([one for one in CHATTING if one.proofs])
@either_way
async def test_a_thought_before_calls_goes_back_with_them(
    setting: Setting, vendor: Vendor, stream: bool
) -> None:
    calls = MADE["parallel"]
    setting.plays(answering(vendor, Said(text=(), thought=THOUGHT, proof=PROOF, calls=calls)))
    asked = await setting.ask(vendor, {"tools": TOOLS}, stream=stream)

    await setting.ask(vendor, fed_back(asked), stream=stream)

    (said,) = [one for one in setting.received(vendor).turns if one.calls]
    assert said.thoughts == ((THOUGHT, PROOF),)
    assert len(said.calls) == 2


@which([one for one in VENDORS if one.embeds])
async def test_texts_become_vectors(setting: Setting, vendor: Vendor) -> None:
    embeds = vendor.embeds
    assert embeds is not None

    async def behave(request: Received, answer: Answer) -> None:
        await answer.json(embeds(request.json))

    setting.plays(behave)
    answer = await setting.client.embeddings.create(
        model=EMBEDS.format(vendor.name) if vendor.embedder else vendor.name,
        input=["one", "two"],
        encoding_format="float",
    )

    assert [one.embedding for one in answer.data] == [[0.5, -1.0]] * 2
    assert [one.index for one in answer.data] == [0, 1]


@which([one for one in VENDORS if not one.embeds])
async def test_a_backend_without_embeddings_gets_no_embeddings_request(
    setting: Setting, vendor: Vendor
) -> None:
    setting.plays(answering(vendor, Said()))

    with pytest.raises(openai.BadRequestError, match="embeddings"):
        await setting.client.embeddings.create(model=vendor.name, input="one")

    assert not setting.server.requests
