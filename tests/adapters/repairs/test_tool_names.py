"""Names of functions that a vendor does not take are sent in its alphabet, and come back."""

import json
import re
from collections.abc import AsyncGenerator, Iterator
from typing import cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.repairs.rule import Aim, repaired
from strowger_gateway.adapters.repairs.tool_names import NAMES_OF_64
from strowger_gateway.schemas.messages import FunctionTool, Message
from strowger_gateway.schemas.requests import ChatRequest
from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs
from tests.stand_ins.provider import Answer, Behaviour, Received, chat_body, delta_body

pytestmark = pytest.mark.anyio

OPENAI_DIALECT = ("openai", "deepseek", "mistral", "vllm", "databricks")
DOTTED, LONG, PLAIN = "docs.search pages", "mcp__plugin_" + "long_" * 20, "plain"
SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string"}}}
TAKEN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("names")
    adapters = (*OPENAI_DIALECT, "openai-responses", "anthropic", "gemini", "bedrock")
    adapters = (*adapters, "cohere", "ollama")
    async with one_of_each(folder, *adapters) as one:
        yield one


def chat_tools(*names: str) -> list[Json]:
    return [{"type": "function", "function": {"name": one, "parameters": SCHEMA}} for one in names]


def chat_history(name: str) -> list[Json]:
    call = {"id": "call_0001", "type": "function", "function": {"name": name, "arguments": "{}"}}
    return [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0001", "content": "r"},
        {"role": "user", "content": "go on"},
    ]


def names_sent(body: Json) -> list[str]:
    """Return the names of the functions that a body offers, in any vendor's format."""
    found: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in cast("Json", value).items():
                if key == "name" and isinstance(inner, str):
                    found.append(inner)
                elif key not in ("parameters", "parametersJsonSchema", "inputSchema"):
                    walk(inner)
        elif isinstance(value, list):
            for inner in cast("list[object]", value):
                walk(inner)

    walk(body.get("tools") or body.get("toolConfig"))
    return found


async def send(rig: Rig, surface: str, model: str, stream: bool = False) -> httpx.Response:
    """Send a request with three tools, one of which was called, and one of which must be."""
    if surface == "chat":
        chosen: Json = {"type": "function", "function": {"name": DOTTED}}
        tools = chat_tools(DOTTED, LONG, PLAIN)
        history = chat_history(DOTTED)
        return await rig.chat(
            model, messages=history, tools=tools, tool_choice=chosen, stream=stream
        )
    if surface == "messages":
        turns: list[Json] = [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "call_0001", "name": DOTTED, "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_0001", "content": "r"}],
            },
        ]
        offered = [{"name": one, "input_schema": SCHEMA} for one in (DOTTED, LONG, PLAIN)]
        choice: Json = {"type": "tool", "name": DOTTED}
        return await rig.messages(
            model, messages=turns, tools=offered, tool_choice=choice, stream=stream
        )
    items: list[Json] = [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "call_0001", "name": DOTTED, "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_0001", "output": "r"},
    ]
    functions = [
        {"type": "function", "name": one, "parameters": SCHEMA} for one in (DOTTED, LONG, PLAIN)
    ]
    named: Json = {"type": "function", "name": DOTTED}
    return await rig.responses(
        model, input=items, tools=functions, tool_choice=named, stream=stream
    )


@pytest.mark.parametrize("model", [*OPENAI_DIALECT, "openai-responses", "bedrock", "cohere"])
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
async def test_names_that_a_vendor_refuses_are_sent_in_its_alphabet(
    rig: Rig, model: str, surface: str
) -> None:
    answer = await send(rig, surface, model)

    assert answer.status_code == 200, answer.text
    sent = names_sent(rig.sent)
    assert all(TAKEN.fullmatch(name) for name in sent), sent
    assert PLAIN in sent or model == "cohere"  # which gets only the tool that must be called
    assert DOTTED not in rig.vendor.requests[-1].body.decode()
    assert any(one.endswith(":tool_name") for one in repairs(answer))


async def test_gemini_gets_the_dots_that_it_takes(rig: Rig) -> None:
    await rig.chat("gemini", tools=chat_tools("docs.search", "a:b", LONG, "2nd"))

    dotted, colon, long, second = names_sent(rig.sent)
    assert (dotted, colon) == ("docs.search", "a:b")
    assert len(long) <= 64
    assert second.startswith("_2nd")


async def test_the_history_and_the_choice_name_the_function_as_the_tools_do(rig: Rig) -> None:
    await send(rig, "chat", "openai")

    body = rig.sent
    first = cast("list[Json]", body["tools"])[0]
    name = cast("Json", first["function"])["name"]
    calls = cast("list[Json]", cast("list[Json]", body["messages"])[1]["tool_calls"])
    assert cast("Json", calls[0]["function"])["name"] == name
    assert cast("Json", cast("Json", body["tool_choice"])["function"])["name"] == name


async def test_names_that_a_vendor_takes_are_sent_as_they_are(rig: Rig) -> None:
    answer = await rig.chat("openai", tools=chat_tools("a-b_C9"), messages=chat_history("a-b_C9"))

    assert names_sent(rig.sent) == ["a-b_C9"]
    assert repairs(answer) == []


async def calls_back(request: Received, answer: Answer) -> None:
    """Call the first function of the request, by the name under which it was sent."""
    name = names_sent(request.json)[0]
    if request.path.partition("?")[0].endswith("/responses"):
        item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": name}
        await answer.json(
            {
                "id": "resp_1",
                "object": "response",
                "created_at": 1,
                "model": "gpt",
                "status": "completed",
                "output": [{**item, "arguments": "{}", "status": "completed"}],
                "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
            }
        )
    elif ":generateContent" in request.path:
        called: dict[str, object] = {"name": name, "args": {}}
        content = {"role": "model", "parts": [{"functionCall": called}]}
        await answer.json({"candidates": [{"content": content, "finishReason": "STOP"}]})
    else:
        call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}}
        if request.json.get("stream"):
            await answer.begin_stream()
            await answer.event(delta_body({"tool_calls": [{"index": 0, **call}]}))
            await answer.end_stream("tool_calls")
            return
        body = {**chat_body("", "tool_calls")}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        body["choices"] = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
        await answer.json(body)


@pytest.fixture
def calling(rig: Rig) -> Iterator[None]:
    """Let the vendor call a function instead of answering."""
    usual, rig.vendor.behaviour = rig.vendor.behaviour, calls_back
    yield
    rig.vendor.behaviour = usual


@pytest.mark.usefixtures("calling")
@pytest.mark.parametrize(
    ("model", "stream"),
    [("openai", False), ("openai", True), ("openai-responses", False), ("mistral", True)],
)
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
async def test_the_answer_calls_the_function_by_the_clients_name(
    rig: Rig, surface: str, model: str, stream: bool
) -> None:
    answer = await send(rig, surface, model, stream)

    assert answer.status_code == 200, answer.text
    assert json.dumps(DOTTED) in answer.text
    assert names_sent(rig.sent)[0] not in answer.text


@pytest.mark.usefixtures("calling")
async def test_gemini_calls_the_function_by_the_clients_name(rig: Rig) -> None:
    answer = await rig.chat("gemini", tools=chat_tools(LONG))

    assert LONG in answer.text


BLOCK: Json = {"type": "tool_use", "id": "c1", "input": {}}
SEARCH: Json = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"name": "x"}}


def claude(*blocks: Json) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": list(blocks),
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


async def claude_calls_back(request: Received, answer: Answer) -> None:
    """Search, then call the first function of the request, as some program that Claude wrote."""
    name = names_sent(request.json)[0]
    call: Json = {**BLOCK, "name": name, "caller": {"type": "direct", "name": name}}
    if not request.json.get("stream"):
        await answer.json(claude(SEARCH, call))
        return
    await answer.begin_stream()
    await answer.event({"type": "message_start", "message": claude()})
    for index, block in enumerate((SEARCH, call)):
        begun = {"type": "content_block_start", "index": index, "content_block": block}
        await answer.event(begun)
        await answer.event({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    await answer.event({"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}})
    await answer.event({"type": "message_stop"})


async def gemini_calls_back(request: Received, answer: Answer) -> None:
    """Call the first function between parts that only Gemini has."""
    called: Json = {"name": names_sent(request.json)[0], "args": {}}
    code: Json = {"executableCode": {"language": "PYTHON", "code": "1"}}
    content = {"role": "model", "parts": [code, {"functionCall": called}]}
    await answer.json({"candidates": [{"content": content, "finishReason": "STOP"}]})


@pytest.mark.parametrize(
    ("model", "behaviour"), [("anthropic", claude_calls_back), ("gemini", gemini_calls_back)]
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
async def test_the_vendors_own_parts_of_an_answer_have_the_clients_names(
    rig: Rig, surface: str, stream: bool, model: str, behaviour: Behaviour
) -> None:
    usual, rig.vendor.behaviour = rig.vendor.behaviour, behaviour
    stream = stream and model == "anthropic"
    try:
        answer = await send(rig, surface, model, stream)
    finally:
        rig.vendor.behaviour = usual

    assert answer.status_code == 200, answer.text
    sent = names_sent(rig.sent)[0]
    assert json.dumps(DOTTED) in answer.text
    assert sent not in answer.text


_names = st.text(min_size=1, max_size=200)


@given(st.lists(_names, min_size=1, max_size=5, unique=True))
def test_every_name_is_sent_in_the_alphabet_and_comes_back(names: list[str]) -> None:
    request = ChatRequest(
        "m",
        (Message(role="user", content="x"),),
        tools=tuple([FunctionTool(name=name) for name in names]),
    )
    aim = Aim(model="m")
    done = repaired(request, (NAMES_OF_64,), aim)

    assert isinstance(done.request, ChatRequest)
    sent = [one.name for one in done.request.tools or () if isinstance(one, FunctionTool)]
    back = dict[str, str]() if done.undo is None else {**done.undo.tools}
    assert all(TAKEN.fullmatch(one) for one in sent)
    assert len(set(sent)) == len(names)
    assert [back.get(one, one) for one in sent] == names
    assert not repaired(done.request, (NAMES_OF_64,), aim).made
