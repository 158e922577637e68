"""`stream_options` over the wire, with the local engine and with providers."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack

import httpx
import msgspec
import pytest
from msgspec import UNSET, Struct, UnsetType

from tests.gateway.serving import Serving, serving
from tests.gateway.shared_engine import SharedEngine
from tests.stand_ins.provider import Answer, Provider, Received, delta_body, provider

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {here}
  - {{name: served, adapter: vllm, base_url: "{url}"}}
  - {{name: known, adapter: groq, base_url: "{url}", api_key: k}}
  - {{name: closed, adapter: mistral, base_url: "{url}", api_key: k}}
  - {{name: unknown, adapter: openai, base_url: "{url}", api_key: k}}
models:
  - {{name: tiny, backends: [{{provider: here, model: tiny}}]}}
  - {{name: served, backends: [{{provider: served, model: m}}]}}
  - {{name: known, backends: [{{provider: known, model: m}}]}}
  - {{name: closed, backends: [{{provider: closed, model: m}}]}}
  - {{name: unknown, backends: [{{provider: unknown, model: m}}]}}
"""
PATHS = ("/v1/chat/completions", "/v1/completions")
HELLO = [{"role": "user", "content": "What is 17 + 25?"}]
DROPPED = "x-gateway-dropped-params"
Json = dict[str, object]


class Counts(Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Delta(Struct, frozen=True, kw_only=True):
    content: str | None = None


class Choice(Struct, frozen=True, kw_only=True):
    delta: Delta = Delta()


class Chunk(Struct, frozen=True, kw_only=True):
    choices: list[Choice]
    usage: Counts | None | UnsetType = UNSET


class Rig(Struct, frozen=True, kw_only=True, eq=False):
    gateway: Serving
    remote: Provider


@pytest.fixture(scope="module")
async def rig(
    tmp_path_factory: pytest.TempPathFactory, engine: SharedEngine
) -> AsyncGenerator[Rig, None]:
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        config = CONFIG.format(here=engine.provider, url=remote.base_url)
        folder = tmp_path_factory.mktemp("run")
        gateway = await stack.enter_async_context(serving(config, folder, engine=engine))
        yield Rig(gateway=gateway, remote=remote)


async def streamed(
    rig: Rig, model: str, options: Mapping[str, object], path: str = PATHS[0], **body: object
) -> tuple[httpx.Response, list[Chunk]]:
    """The answer, and its chunks."""
    said: Json = {"messages": HELLO} if "chat" in path else {"prompt": "17 + 25 ="}
    body = {"model": model, "stream": True, "max_tokens": 8, **said, **body}
    async with httpx.AsyncClient(base_url=rig.gateway.url, timeout=60) as ask:
        answer = await ask.post(path, json={**body, "stream_options": options})
    frames = [frame for frame in answer.text.split("\n\n") if frame.startswith("data: {")]
    return answer, [msgspec.json.decode(frame[6:], type=Chunk) for frame in frames]


@pytest.mark.parametrize("path", PATHS)
async def test_continuous_usage_is_on_every_chunk_and_adds_up(rig: Rig, path: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer, chunks = await streamed(rig, "tiny", options, path, ignore_eos=True, max_tokens=60)

    usages = [chunk.usage for chunk in chunks if isinstance(chunk.usage, Counts)]
    counts = [usage.completion_tokens for usage in usages]
    assert answer.status_code == 200, answer.text
    assert DROPPED not in answer.headers
    assert len(usages) == len(chunks)
    assert chunks[-1].choices == []
    assert counts == sorted(counts)
    assert counts[-2:] == [60, 60]
    assert len(set(counts)) > 1
    assert all(one.total_tokens == one.prompt_tokens + one.completion_tokens for one in usages)


@pytest.mark.parametrize("path", PATHS)
async def test_continuous_usage_requires_include_usage(rig: Rig, path: str) -> None:
    answer, chunks = await streamed(rig, "tiny", {"continuous_usage_stats": True}, path)

    assert answer.status_code == 200
    assert all(chunk.usage is UNSET for chunk in chunks)


@pytest.mark.parametrize("model", ["tiny", "served", "known", "closed"])
async def test_an_option_of_false_has_no_effect(rig: Rig, model: str) -> None:
    options = {"include_usage": True, "include_obfuscation": False, "continuous_usage_stats": False}
    answer, chunks = await streamed(rig, model, options)

    assert answer.status_code == 200, answer.text
    assert DROPPED not in answer.headers
    assert isinstance(chunks[-1].usage, Counts)


async def test_openais_dialect_is_asked_not_to_obfuscate(rig: Rig) -> None:
    await streamed(rig, "unknown", {"include_obfuscation": False})

    assert rig.remote.requests[-1].json["stream_options"] == {
        "include_obfuscation": False,
        "include_usage": True,
    }


@pytest.mark.parametrize(
    ("model", "path"), [("tiny", PATHS[0]), ("tiny", PATHS[1]), ("closed", PATHS[0])]
)
async def test_obfuscation_is_left_out_and_named(rig: Rig, model: str, path: str) -> None:
    answer, _ = await streamed(rig, model, {"include_obfuscation": True}, path)

    assert answer.status_code == 200, answer.text
    assert answer.headers[DROPPED] == "stream_options.include_obfuscation"


@pytest.mark.parametrize(
    ("model", "named"),
    [("served", False), ("unknown", False), ("known", True), ("closed", True)],
)
async def test_continuous_usage_goes_to_servers_that_may_know_it(
    rig: Rig, model: str, named: bool
) -> None:
    """Elsewhere it is left out and named, and chunks have no counts until the last."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer, chunks = await streamed(rig, model, options)

    sent = rig.remote.requests[-1].json.get("stream_options", {})
    assert isinstance(sent, dict)
    assert answer.status_code == 200, answer.text
    assert ("continuous_usage_stats" in sent) is not named
    assert answer.headers.get(DROPPED) == (
        "stream_options.continuous_usage_stats" if named else None
    )
    assert all(chunk.usage is not UNSET for chunk in chunks)
    assert isinstance(chunks[-1].usage, Counts)


async def test_a_backends_running_counts_reach_the_client(rig: Rig) -> None:
    async def counts(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        for count, text in enumerate(("a", "b"), start=1):
            usage = {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": 3 + count}
            await answer.event({**delta_body({"content": text}), "usage": usage})
        await answer.end_stream()

    usual, rig.remote.behaviour = rig.remote.behaviour, counts
    options = {"include_usage": True, "continuous_usage_stats": True}
    try:
        _, chunks = await streamed(rig, "served", options)
    finally:
        rig.remote.behaviour = usual

    said = next(c for c in chunks if c.choices and c.choices[0].delta.content == "b")
    assert isinstance(said.usage, Counts)
    assert said.usage.completion_tokens == 2


@pytest.mark.parametrize("model", ["tiny", "closed"])
async def test_an_unknown_option_is_refused_by_its_own_name(rig: Rig, model: str) -> None:
    answer, _ = await streamed(rig, model, {"include_usage": True, "x_new": 1})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "stream_options.x_new"
    assert "stream_options.x_new is not known" in answer.json()["error"]["message"]


@pytest.mark.parametrize("name", ["include_obfuscation", "continuous_usage_stats"])
async def test_an_option_of_another_type_is_refused(rig: Rig, name: str) -> None:
    answer, _ = await streamed(rig, "tiny", {name: "yes"})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == f"stream_options.{name}"
