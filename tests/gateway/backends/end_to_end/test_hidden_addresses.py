"""Errors never show a backend's address to clients; the log does."""

import json
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.backends.engines.link.places import UnixPlace
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from strowger_gateway.gateway.backends.upstream.origin import addresses_of
from strowger_gateway.schemas.errors import UpstreamStarting
from strowger_gateway.schemas.requests import EmbeddingsRequest
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers: [{{name: up, adapter: {adapter}, base_url: "{url}", api_key: key-of-ours{more}}}]
models:
  - {{name: chat, retry: {{attempts: 1}}, backends: [{{provider: up, model: m}}]}}
"""
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
ADAPTERS = (
    "openai",
    "anthropic",
    "gemini",
    "mistral",
    "cohere",
    "ollama",
    "bedrock",
    "databricks",
    "mindie",
    "sglang",
    "tgi",
    "vertex-anthropic",
    "vllm",
    "groq",
)


async def asked(config: str, folder: Path, *, stream: bool) -> tuple[httpx.Response, str]:
    """The answer, and the message of its access line."""
    async with (
        serving(config, folder) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        answer = await client.post("/v1/chat/completions", json={**HELLO, "stream": stream})
        (line,) = gateway.access_lines()
    return answer, line.message


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("more", ["", ', proxy: "http://127.0.0.1:9"'], ids=["direct", "proxied"])
async def test_a_backend_that_cannot_be_reached_is_named_and_not_located(
    more: str, stream: bool, tmp_path: Path
) -> None:
    url = "http://127.0.0.1:9/v1"

    answer, logged = await asked(
        CONFIG.format(adapter="openai", url=url, more=more), tmp_path, stream=stream
    )

    assert answer.status_code == 502
    assert answer.json()["error"]["message"].startswith("up: ")
    assert "127.0.0.1" not in answer.text
    assert more or "no connection to 127.0.0.1 port 9" in logged


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_a_server_that_repeats_its_address_is_not_repeated(
    adapter: str, status: int, tmp_path: Path
) -> None:
    async def tells(request: Received, answer: Answer) -> None:
        host = request.headers["host"]
        text = f"worker at http://{host}/v1/x ({host}) gave up"
        await answer.json({"error": {"message": text}, "message": text}, status)

    async with provider(tells) as remote:
        address = remote.base_url.removeprefix("http://").partition("/")[0]
        config = CONFIG.format(adapter=adapter, url=f"http://{address}", more="")
        answer, logged = await asked(config, tmp_path, stream=False)

    message = json.dumps(answer.json())
    assert "gave up" in message
    assert address.partition(":")[0] not in message
    assert address in logged


async def test_an_engine_that_does_not_answer_shows_its_state_and_no_file(tmp_path: Path) -> None:
    upstream = LocalUpstream(
        "here",
        UnixPlace(tmp_path / "engine.sock"),
        status=lambda: f"cannot be started ({tmp_path})",
        state=lambda: "restarting",
    )

    with pytest.raises(UpstreamStarting) as caught:
        await upstream.embed(
            EmbeddingsRequest(model="m", inputs=("x",)),
            Call(model="m", deadline=float("inf"), request_id="r"),
        )

    assert caught.value.message == "here: the engine does not respond: restarting"
    assert str(tmp_path) in caught.value.logged


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://10.0.0.1:8000/v1", ("http://10.0.0.1:8000/v1", "10.0.0.1:8000", "10.0.0.1")),
        ("https://llm.example.com/v1", ("https://llm.example.com", "llm.example.com")),
        ("http://vllm:8000/v1", ("http://vllm:8000/v1", "vllm:8000")),
        ("http://[::1]:8000/v1", ("http://[::1]:8000", "[::1]:8000", "::1")),
    ],
)
def test_every_way_of_writing_an_address_is_known_longest_first(
    url: str, found: tuple[str, ...]
) -> None:
    addresses = addresses_of(url)

    assert {*found} <= {*addresses}
    assert list(addresses) == sorted(addresses, key=len, reverse=True)
    assert "vllm" not in addresses
