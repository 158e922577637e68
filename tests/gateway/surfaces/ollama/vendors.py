"""Three vendors behind Ollama's API: OpenAI's, Anthropic's and Ollama's own, each on loopback."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import ollama
from msgspec import Struct

from tests.gateway.serving import Serving, serving
from tests.stand_ins.anthropic_server import KEY, messages_api
from tests.stand_ins.provider import USAGE, Answer, Provider, Received, answers, provider

Json = Mapping[str, object]

CONFIG: Final = """
providers:
  - {{name: gpt, adapter: openai, base_url: "{gpt}/v1", api_key: k}}
  - {{name: claude, adapter: anthropic, base_url: "{claude}", api_key: {key}}}
  - {{name: box, adapter: ollama, base_url: "{box}"}}
  - {{name: far, adapter: ollama, base_url: "{box}",
     client_fields: {{allow: [options.num_ctx, keep_alive]}}}}
models:
  - {{name: gpt, backends: [{{provider: gpt, model: m-1}}]}}
  - {{name: claude, backends: [{{provider: claude, model: claude-sonnet-4-5}}]}}
  - {{name: "box:latest", backends: [{{provider: box, model: "llama3.2:3b"}}]}}
  - {{name: open, backends: [{{provider: far, model: "llama3.2:3b"}}]}}
  - {{name: nomic-embed-text, backends: [{{provider: gpt, model: e-1}}]}}
  - {{name: "any/*", backends: [{{provider: gpt, model: "*"}}]}}
{more}
"""
WEATHER: Final[Json] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather at a place",
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string"}},
            "required": ["at"],
        },
    },
}
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TIMES: Final = {
    "total_duration": 5_000_000_001,
    "load_duration": 1_000_000_002,
    "prompt_eval_count": 11,
    "prompt_eval_duration": 300_000_003,
    "eval_count": 5,
    "eval_duration": 900_000_004,
}
LAST: Final = {"done": True, "done_reason": "stop", **TIMES}
WAITS: Final = "wait"
BREAKS: Final = "break off"
REFUSES: Final = "refuse"


class Vendors(Struct, frozen=True, kw_only=True, eq=False):
    """read: a backend that waits sends the rest of its answer once this is set."""

    gateway: Serving
    gpt: Provider
    claude: Provider
    box: Provider
    read: asyncio.Event


async def openais(request: Received, answer: Answer, read: asyncio.Event) -> None:
    """Call the first tool twice, unless there are results; think aloud; break off if asked to."""
    messages = cast("list[dict[str, object]]", request.json.get("messages", []))
    asked = str(messages[-1]["content"]) if messages else ""
    if REFUSES in asked:
        await answer.json({"error": {"message": "no such thing", "code": "bad"}}, 400)
    elif WAITS in asked:
        await answer.begin_stream()
        await answer.text("first")
        await read.wait()
        await answer.text("second")
        await answer.end_stream()
    elif BREAKS in asked:
        await answer.begin_stream()
        await answer.text("half of")
        answer.reset()
    elif request.json.get("tools") and messages[-1]["role"] != "tool":
        await _calls(request, answer)
    else:
        await answers(request, answer)


async def _calls(request: Received, answer: Answer) -> None:
    calls = [
        {"index": at, "id": f"call_{place}", "type": "function",
         "function": {"name": "weather", "arguments": json.dumps({"at": place})}}
        for at, place in enumerate(("Bern", "Basel"))
    ]  # fmt: skip
    head = {"id": "c", "created": 1_700_000_000, "model": "m-1"}
    if not request.json.get("stream"):
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": USAGE}
        await answer.json(whole)
        return
    await answer.begin_stream()
    for call in calls:
        function = cast("dict[str, str]", call["function"])
        for piece in (
            {**call, "function": {**function, "arguments": ""}},
            {"index": call["index"], "function": {"arguments": function["arguments"][:4]}},
            {"index": call["index"], "function": {"arguments": function["arguments"][4:]}},
        ):
            choice = {"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": None}
            await answer.event({**head, "object": "chat.completion.chunk", "choices": [choice]})
    await answer.end_stream("tool_calls")


async def boxes(request: Received, answer: Answer) -> None:
    """An Ollama server that thinks before it answers."""
    head = {"model": "llama3.2:3b", "created_at": "2026-03-01T10:20:30.123456789Z"}
    if request.path == "/api/embed":
        await answer.json({**head, "embeddings": [[0.25, 1.0]], **TIMES})
        return
    if request.path == "/api/generate":
        lines = [{**head, "response": "a, b"}, {**head, "response": "", **LAST}]
    else:
        turn = {"role": "assistant", "content": ""}
        lines = [
            {**head, "message": {**turn, "thinking": "Hm."}, "done": False},
            {**head, "message": {**turn, "content": "Hello"}, "done": False},
            {**head, "message": turn, **LAST},
        ]
    if request.json["stream"]:
        data = b"".join(json.dumps(one).encode() + b"\n" for one in lines)
        await answer.body(data, "application/x-ndjson")
    elif request.path == "/api/generate":
        await answer.json({**head, "response": "a, b", **LAST})
    else:
        message = {"role": "assistant", "content": "Hello", "thinking": "Hm."}
        await answer.json({**head, "message": message, **LAST})


def client_of(url: str, **headers: str) -> Any:
    """An ollama.AsyncClient, whose declared types have unknown parts."""
    return ollama.AsyncClient(host=url, headers=headers)


@asynccontextmanager
async def vendors(run_dir: Path, more: str = "") -> AsyncGenerator[Vendors, None]:
    async with AsyncExitStack() as stack:
        read = asyncio.Event()
        gpt = await stack.enter_async_context(provider(partial(openais, read=read)))
        claude = await stack.enter_async_context(provider(messages_api))
        box = await stack.enter_async_context(provider(boxes))
        text = CONFIG.format(
            gpt=gpt.origin, claude=claude.origin, box=box.origin, key=KEY, more=more
        )
        gateway = await stack.enter_async_context(serving(text, run_dir))
        yield Vendors(gateway=gateway, gpt=gpt, claude=claude, box=box, read=read)
