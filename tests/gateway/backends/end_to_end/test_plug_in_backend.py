"""The example package installed with the gateway, with OpenAI's own client and its adapter."""

import asyncio
import sys
import tomllib
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

import openai
import pytest
from click.testing import CliRunner
from msgspec import Struct
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from strowger_gateway.adapters import registry
from strowger_gateway.adapters.registry import GROUP, Registry
from strowger_gateway.adapters.testing import fixture
from strowger_gateway.gateway.cli.known_models.command import models
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "strowger-workers-ai"
FIXTURES = EXAMPLE / "tests" / "fixtures" / "workers-ai"
CONFIG = """
providers:
  - name: cf
    adapter: workers-ai
    base_url: {url}/client/v4/accounts/a1/ai
    api_key: cf-secret-of-the-operator
    timeouts: {{connect_s: 20, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    retry: {{attempts: 1}}
    backends: [{{provider: cf, model: "@cf/meta/llama"}}]
  - name: vectors
    backends: [{{provider: cf, model: "@cf/baai/bge"}}]
"""
HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hello"}
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}


def installed(folder: Path, *, name: str = "") -> Path:
    """What an installer writes of the package's pyproject.toml, and all that discovery reads."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    plugins = cast("dict[str, str]", project["entry-points"][GROUP])
    lines = [f"{name or given} = {value}" for given, value in plugins.items()]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
    return folder


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> Generator[None, None, None]:  # pyright: ignore[reportUnusedFunction]: pytest calls it
    """What is installed is looked up once a process."""
    registry.installed.cache_clear()
    yield
    registry.installed.cache_clear()


def find(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """A vendor, the gateway in front of it, and a client of the gateway."""

    server: Provider
    gateway: Serving
    client: openai.AsyncOpenAI


async def workers_ai(request: Received, answer: Answer) -> None:
    """Answers with the package's own recordings; the last message says which."""
    body = request.json
    if "text" in body:
        await answer.json({"result": {"data": [[0.5, -1.0]]}, "success": True})
        return
    said = str(cast("list[dict[str, object]]", body["messages"])[-1]["content"])
    case = fixture(FIXTURES, said)
    if not case.streamed:
        await answer.body(case.body, "application/json", case.status, case.headers)
        return
    await answer.begin_stream()
    for piece in case.body.split(b"\n\n")[:-1]:
        if b'"success": false' in piece:
            await asyncio.sleep(0.05)  # so that the text is on its way before the failure
        await answer.chunk(piece + b"\n\n")
    await answer.end_stream(finish=None, done=False)


@pytest.fixture
async def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Setting, None]:
    find(monkeypatch, installed(tmp_path / "site"))
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(workers_ai))
        config = CONFIG.format(url=server.origin)
        gateway = await stack.enter_async_context(serving(config, tmp_path))
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        yield Setting(server=server, gateway=gateway, client=client)


def asked(case: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": case}]


async def test_a_chat_goes_through_an_adapter_that_was_found_by_its_entry_point(
    setting: Setting,
) -> None:
    answer = await setting.client.chat.completions.create(
        model="chat", messages=asked("chat"), max_tokens=5, top_p=0.5
    )

    assert answer.choices[0].message.content == "It is 21 °C."
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 17
    [request] = setting.server.requests
    assert request.path == "/client/v4/accounts/a1/ai/run/@cf/meta/llama"
    assert request.headers["authorization"] == "Bearer cf-secret-of-the-operator"
    assert request.json == {
        "messages": [{"role": "user", "content": "chat"}],
        "max_tokens": 5,
        "top_p": 0.5,
    }


async def test_its_streams_arrive_in_pieces_with_their_tool_calls(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="chat", messages=asked("chat-stream-choices"), tools=[WEATHER], stream=True
    )
    chunks = [chunk async for chunk in stream]

    pieces = [call for one in chunks for call in one.choices[0].delta.tool_calls or []]
    assert [(call.index, call.id) for call in pieces if call.id] == [(0, "t-1"), (1, "t-2")]
    arguments = {0: "", 1: ""}
    for call in pieces:
        arguments[call.index] += (call.function.arguments if call.function else "") or ""
    assert arguments == {0: '{"at": "Oslo"}', 1: "{}"}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


async def test_its_failures_are_reported_before_and_after_the_first_byte(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="chat", messages=asked("chat-stream-error"), stream=True
    )
    await anext(stream)
    with pytest.raises(openai.APIError, match="cf: Request timeout"):
        [chunk async for chunk in stream]

    with pytest.raises(openai.RateLimitError, match="No more data centers") as caught:
        await setting.client.chat.completions.create(
            model="chat", messages=asked("error-429-capacity")
        )

    assert caught.value.response.headers["retry-after"] == "7"


async def test_what_it_does_not_support_is_refused_before_it_is_sent(setting: Setting) -> None:
    with pytest.raises(openai.BadRequestError, match="n is not supported") as caught:
        await setting.client.chat.completions.create(model="chat", messages=[HELLO], n=2)

    assert caught.value.param == "n"
    assert not setting.server.requests


async def test_its_embeddings_are_in_the_requested_format(setting: Setting) -> None:
    answer = await setting.client.embeddings.create(model="vectors", input="one")

    assert answer.data[0].embedding == [0.5, -1.0]
    assert setting.server.requests[-1].json == {"text": ["one"]}


def test_the_command_line_lists_what_it_supports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(monkeypatch, installed(tmp_path))

    listed = CliRunner().invoke(models, ["workers-ai"])

    assert listed.exit_code == 0, listed.output
    assert "response_format" in listed.output
    assert "9.99" in listed.output or "1e+10" in listed.output


def test_the_configuration_must_say_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(monkeypatch, installed(tmp_path))
    lines = CONFIG.format(url="https://cf.test").splitlines()
    config = "\n".join(line for line in lines if "base_url" not in line)

    with pytest.raises(InvalidConfig, match='adapter "workers-ai" has no default address'):
        read_config(config, source="config.yaml", env={})


def test_a_plug_in_that_takes_a_name_of_ours_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(monkeypatch, installed(tmp_path, name="cohere"))

    with pytest.raises(InvalidConfig, match="'cohere', which is already taken"):
        Registry()
    with pytest.raises(InvalidConfig, match="'cohere', which is already taken"):
        read_config(CONFIG.format(url="https://cf.test"), source="config.yaml", env={})


def test_a_broken_plug_in_affects_only_providers_that_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = installed(tmp_path)
    [entries] = broken.glob("*/entry_points.txt")
    entries.write_text(f"[{GROUP}]\nworkers-ai = no_such_module:Adapter\n")
    find(monkeypatch, broken)
    named = CONFIG.format(url="https://cf.test")

    other = read_config(named.replace("workers-ai", "openai"), source="config.yaml", env={})

    assert other.providers[0].adapter == "openai"
    with pytest.raises(InvalidConfig, match=r"'workers-ai' .* cannot be loaded"):
        read_config(named, source="config.yaml", env={})


def test_nothing_of_it_is_a_plug_in_before_it_is_installed() -> None:
    assert "workers-ai" not in entry_points(group=GROUP).names
