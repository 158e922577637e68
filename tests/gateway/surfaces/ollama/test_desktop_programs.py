"""The calls of programs that know nothing but an Ollama server's address, in their order.

As their sources have them: Copilot in VS Code, Continue, Open WebUI, Home Assistant.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any, cast

import httpx
import pytest
from msgspec import Struct

from tests.gateway.surfaces.ollama.vendors import WEATHER, Vendors, vendors

pytestmark = pytest.mark.anyio

FACTS = """
capabilities:
  - {match: claude/*, context: 200000, input: [text, image], tools: true, reasoning: true}
"""
Json = dict[str, Any]


class Rig(Struct, frozen=True, kw_only=True, eq=False):
    at: Vendors
    web: httpx.AsyncClient

    async def get(self, path: str) -> Json:
        answer = await self.web.get(path)
        assert answer.status_code == 200, answer.text
        return cast("Json", answer.json())

    async def post(self, path: str, body: Json) -> list[Json]:
        """The objects of an answer, one per line."""
        answer = await self.web.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return [cast("Json", json.loads(one)) for one in answer.text.splitlines()]


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    async with (
        vendors(tmp_path_factory.mktemp("run"), FACTS) as at,
        httpx.AsyncClient(base_url=at.gateway.url, timeout=60) as web,
    ):
        yield Rig(at=at, web=web)


async def test_copilot_finds_models_with_tools_and_chats_at_openais_route(rig: Rig) -> None:
    """https://github.com/microsoft/vscode-copilot-chat: it reads each number of the version."""
    version = (await rig.get("/api/version"))["version"]
    listed = (await rig.get("/api/tags"))["models"]
    [shown] = await rig.post("/api/show", {"model": "claude"})
    info = shown["model_info"]
    chat = {"model": "claude", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 50}
    [answer] = await rig.post("/v1/chat/completions", chat)

    assert [int(one) for one in version.split(".")] >= [0, 6, 4]
    assert "claude" in [one["model"] for one in listed]
    assert {"tools", "vision"} <= set(shown["capabilities"])
    assert info["general.basename"] == "claude"
    assert info[f"{info['general.architecture']}.context_length"] == 200_000
    assert answer["choices"][0]["message"]["content"]


async def test_continue_reads_the_context_and_completes_between_two_texts(rig: Rig) -> None:
    """https://github.com/continuedev/continue: core/llm/llms/Ollama.ts."""
    [shown] = await rig.post("/api/show", {"name": "claude"})
    [filler] = await rig.post("/api/show", {"name": "box"})
    options = {"num_predict": 50, "num_ctx": 8192, "stop": ["\n\n"], "temperature": 0.01}
    between = await rig.post(
        "/api/generate",
        {
            "model": "box",
            "prompt": "def f(",
            "suffix": "return 1",
            "options": options,
            "keep_alive": 1800,
            "stream": True,
        },
    )
    [called] = await rig.post(
        "/api/chat",
        {
            "model": "gpt",
            "messages": [{"role": "user", "content": "weather?"}],
            "options": options,
            "keep_alive": 1800,
            "tools": [WEATHER],
            "stream": False,
        },
    )
    [answered] = await rig.post(
        "/api/chat",
        {
            "model": "gpt",
            "messages": [
                {"role": "user", "content": "weather?"},
                {"role": "assistant", "content": ""},
                {"role": "tool", "content": "19 degrees"},
            ],
            "stream": False,
        },
    )

    assert shown["parameters"] == "num_ctx 200000"
    assert ".Suffix" not in shown["template"]
    assert ".Suffix" in filler["template"]
    assert "".join(one["response"] for one in between)
    assert called["message"]["tool_calls"][0]["function"]["arguments"] == {"at": "Bern"}
    assert answered["message"]["content"], "it returns results without their calls"
    assert "19 degrees" in rig.at.gpt.requests[-1].body.decode()


async def test_open_webui_lists_chats_and_embeds(rig: Rig) -> None:
    """https://github.com/open-webui/open-webui: backend/open_webui/routers/ollama.py."""
    listed = (await rig.get("/api/tags"))["models"]
    running = (await rig.get("/api/ps"))["models"]
    version = await rig.get("/api/version")
    lines = await rig.post(
        "/api/chat",
        {
            "model": listed[0]["model"],
            "messages": [{"role": "user", "content": "hi"}],
            "options": {"temperature": 0.8, "num_ctx": 2048, "mirostat": 0, "num_gpu": 99},
            "keep_alive": "5m",
            "stream": True,
        },
    )
    [vectors] = await rig.post(
        "/api/embed", {"model": "nomic-embed-text", "input": ["a", "b"], "truncate": True}
    )

    assert all(one["details"] and one["digest"] and one["modified_at"] for one in listed)
    assert [one["model"] for one in running] == [one["model"] for one in listed]
    assert version
    last = lines[-1]
    assert "".join(one["message"]["content"] for one in lines) == "hello"
    assert last["eval_count"] / (last["eval_duration"] / 1e9) > 0
    assert last["prompt_eval_count"] / (last["prompt_eval_duration"] / 1e9) > 0
    assert len(vectors["embeddings"]) == 2


async def test_home_assistant_keeps_a_model_for_ever_and_calls_tools_in_a_stream(rig: Rig) -> None:
    """https://github.com/home-assistant/core: homeassistant/components/ollama."""
    lines = await rig.post(
        "/api/chat",
        {
            "model": "gpt:latest",
            "messages": [
                {"role": "system", "content": "You control a house."},
                {"role": "user", "content": "weather?"},
            ],
            "tools": [WEATHER],
            "stream": True,
            "keep_alive": "-1s",
            "options": {"num_ctx": 8192},
            "think": False,
        },
    )

    calls = [call for one in lines for call in one["message"].get("tool_calls", [])]
    assert [one["function"]["name"] for one in calls] == ["weather", "weather"]
    assert lines[-1]["done"] is True
