"""The bundled model calls functions and uses their results: official clients, each API, no model
but the one that ships.
"""

import json
from collections.abc import Callable
from typing import cast

import anthropic
import httpx
import openai
import pytest
from anthropic import beta_async_tool
from anthropic.types.beta import BetaTextBlock
from openai.lib.responses_tool_runner import AsyncRegisteredFunction, AsyncResponsesToolRunner
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionMessageParam,
    ChatCompletionToolParam,
)

from tests.gateway.serving import Serving

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {here}
models:
  - {{name: chat, defaults: {{temperature: 0}}, backends: [{{provider: here, model: tiny}}]}}
"""
EITHER_WAY = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
RESULTS: dict[str, Callable[[dict[str, object]], str]] = {
    "get_weather": lambda _: '{"temperature": 18, "conditions": "sunny"}',
    "get_time": lambda _: "14:30",
    "add": lambda given: str(int(str(given["a"])) + int(str(given["b"]))),
}
"""What each function returns, from its arguments."""


def function(name: str, description: str, kind: str, *parameters: str) -> ChatCompletionToolParam:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key in parameters},
                "required": list(parameters),
            },
        },
    }


TOOLS = [
    function("get_weather", "Get the current weather for a city.", "string", "city"),
    function("get_time", "Get the current time in a city.", "string", "city"),
    function("add", "Add two numbers.", "integer", "a", "b"),
]
"""In this order."""

TASKS = [
    (
        "What is the weather in Paris?",
        ("get_weather", {"city": "Paris"}),
        "In Paris: temperature 18, conditions sunny.",
    ),
    ("What time is it in Tokyo?", ("get_time", {"city": "Tokyo"}), "In Tokyo: 14:30."),
    ("What is 1250 + 347?", ("add", {"a": 1250, "b": 347}), "The sum is 1597."),
]
EACH_TASK = pytest.mark.parametrize(("asked", "called", "answer"), TASKS, ids=[*RESULTS])


async def complete(
    ask: openai.AsyncOpenAI,
    messages: list[ChatCompletionMessageParam],
    tools: list[ChatCompletionToolParam],
    *,
    stream: bool,
) -> ChatCompletion:
    if not stream:
        return await ask.chat.completions.create(model="chat", messages=messages, tools=tools)
    async with ask.chat.completions.stream(model="chat", messages=messages, tools=tools) as events:
        return await events.get_final_completion()


@EITHER_WAY
@EACH_TASK
async def test_chat_completions_call_a_function_and_answer_from_its_result(
    gateway: Serving,
    asked: str,
    called: tuple[str, dict[str, object]],
    answer: str,
    *,
    stream: bool,
) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": asked}]
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k") as ask:
        first = (await complete(ask, messages, TOOLS, stream=stream)).choices[0]
        assert first.message.tool_calls is not None
        (call,) = first.message.tool_calls
        assert call.type == "function"
        arguments = json.loads(call.function.arguments)
        messages.append(cast("ChatCompletionMessageParam", first.message.to_dict()))
        result = RESULTS[call.function.name](arguments)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        last = (await complete(ask, messages, TOOLS, stream=stream)).choices[0]

    assert first.finish_reason == "tool_calls"
    assert (call.function.name, arguments) == called
    assert last.finish_reason == "stop"
    assert last.message.content == answer


@EITHER_WAY
@EACH_TASK
async def test_messages_call_a_function_and_answer_from_its_result(
    gateway: Serving,
    asked: str,
    called: tuple[str, dict[str, object]],
    answer: str,
    *,
    stream: bool,
) -> None:
    EXECUTED.clear()
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key="k") as ask:
        runner = ask.beta.messages.tool_runner(
            model="chat",
            max_tokens=200,
            messages=[{"role": "user", "content": asked}],
            tools=[get_weather, get_time, add],
            stream=stream,
        )
        last = await runner.until_done()

    (said,) = last.content
    assert [called] == EXECUTED
    assert last.stop_reason == "end_turn"
    assert isinstance(said, BetaTextBlock)
    assert said.text == answer


EXECUTED: list[tuple[str, dict[str, object]]] = []
"""The calls that the tool runner of Anthropic's SDK executed in this test."""


def executed(name: str, arguments: dict[str, object]) -> str:
    EXECUTED.append((name, arguments))
    return RESULTS[name](arguments)


@beta_async_tool
async def get_weather(city: str) -> str:
    """Get the current weather for a city."""
    return executed("get_weather", {"city": city})


@beta_async_tool
async def get_time(city: str) -> str:
    """Get the current time in a city."""
    return executed("get_time", {"city": city})


@beta_async_tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return executed("add", {"a": a, "b": b})


@EITHER_WAY
@EACH_TASK
async def test_responses_call_a_function_and_answer_from_its_result(
    gateway: Serving,
    asked: str,
    called: tuple[str, dict[str, object]],
    answer: str,
    *,
    stream: bool,
) -> None:
    calls: list[tuple[str, dict[str, object]]] = []

    def registered(tool: ChatCompletionToolParam) -> AsyncRegisteredFunction:
        name = tool["function"]["name"]

        async def execute(given: dict[str, object]) -> str:
            calls.append((name, given))
            return RESULTS[name](given)

        declared = {"type": "function", "strict": True, **tool["function"]}
        return AsyncRegisteredFunction(tool=declared, execute=execute)  # pyright: ignore[reportArgumentType]  # a TypedDict

    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k") as ask:
        runner = AsyncResponsesToolRunner(functions=[registered(tool) for tool in TOOLS])
        done = await runner.run(
            ask, {"model": "chat", "input": asked, "store": False}, stream=stream
        )

    assert calls == [called]
    assert done.output_text == answer


@pytest.mark.parametrize(
    ("asked", "tools", "answer"),
    [
        ("Hello!", TOOLS, "Hello! How can I help you?"),
        ("Count from 3 to 6", TOOLS, "3, 4, 5, 6."),
        ("What is the capital of France?", TOOLS, "Sorry, I do not know that."),
        ("What is the weather in Paris?", TOOLS[2:], "Sorry, I do not know that."),
        ("What time is it in Tokyo?", TOOLS[:1], "Sorry, I do not know that."),
        ("What is 17 + 25?", TOOLS[:2], "17 + 25 = 42."),
        ("What is the weather in Paris?", [], "Sorry, I do not know that."),
    ],
)
async def test_where_no_function_fits_the_model_answers_itself(
    gateway: Serving, asked: str, tools: list[ChatCompletionToolParam], answer: str
) -> None:
    body = {"model": "chat", "messages": [{"role": "user", "content": asked}]}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as ask:
        got = await ask.post(
            "/v1/chat/completions", json={**body, "tools": tools} if tools else body
        )

    (choice,) = got.json()["choices"]
    assert choice["finish_reason"] == "stop"
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["content"].startswith(answer)


async def test_a_tool_choice_decides_for_the_model(gateway: Serving) -> None:
    body = {
        "model": "chat",
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": TOOLS,
    }
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as ask:
        without = await ask.post("/v1/chat/completions", json={**body, "tool_choice": "none"})
        required = await ask.post("/v1/chat/completions", json={**body, "tool_choice": "required"})

    assert without.json()["choices"][0]["message"]["content"].startswith("Sorry, I do not know")
    (call,) = required.json()["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
