"""Anthropic's own client in front of the gateway, and Claude on Vertex AI behind it."""

import json
from hashlib import sha256
from pathlib import Path

import httpx
import msgspec
import pytest
from msgspec import Raw

from tests.gateway.surfaces.anthropic.claude import (
    HELLO,
    WEATHER,
    ClaudeSetting,
    claude_in_front_of,
)
from tests.gateway.surfaces.anthropic.test_messages_to_claude import SPACED
from tests.stand_ins.anthropic_server import ANSWER, KEY, messages_api
from tests.stand_ins.google_cloud import GoogleCloud, service_account
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

BASE = "/v1/projects/p/locations/global/publishers/anthropic"
MODEL = "claude-opus-4-6"
KNOWN = "interleaved-thinking-2025-05-14"
CONFIG = """
providers:
  - name: claude
    adapter: vertex-anthropic
    base_url: "{url}/v1/projects/p/locations/global/publishers/anthropic"
    api_key: ya29.fake-0123456789
models:
  - name: chat
    retry: {{attempts: 1}}
    backends: [{{provider: claude, model: claude-opus-4-6}}]
"""
_fields = msgspec.json.Decoder(dict[str, Raw])


async def vertex(request: Received, answer: Answer) -> None:
    """The Messages API in Google's frame."""
    if request.path == f"{BASE}/models/count-tokens:rawPredict":
        await answer.json({"input_tokens": 375})
        return
    body = {**request.json}
    verb = "streamRawPredict" if body.get("stream") else "rawPredict"
    assert request.path == f"{BASE}/models/{MODEL}:{verb}"
    assert request.headers["authorization"].startswith("Bearer ya29.")
    assert body.pop("anthropic_version") == "vertex-2023-10-16"
    assert "model" not in body
    inside = Received(
        method=request.method,
        path="/v1/messages",
        headers={**request.headers, "x-api-key": KEY, "anthropic-version": "2023-06-01"},
        body=json.dumps({"model": MODEL, **body}).encode(),
    )
    await messages_api(inside, answer)


@pytest.mark.parametrize("stream", [b"", b', "stream": true'], ids=["whole", "streamed"])
async def test_what_claude_caches_arrives_byte_by_byte(tmp_path: Path, stream: bytes) -> None:
    body = SPACED.rstrip(b"}") + stream + b"}"
    async with claude_in_front_of(vertex, CONFIG, tmp_path) as setting:
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(f"{setting.gateway.url}/v1/messages", content=body)
        received = _fields.decode(setting.server.requests[-1].body)

    sent = _fields.decode(body)
    assert answer.status_code == 200, answer.text
    assert "x-gateway-dropped-params" not in answer.headers
    for name in sent.keys() - {"model", "max_tokens", "stream"}:
        assert sha256(received[name]).digest() == sha256(sent[name]).digest(), name
    assert received.keys() == sent.keys() - {"model"} | {"anthropic_version"}


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agents_question_is_answered_and_its_betas_follow_the_operators(
    tmp_path: Path, stream: bool
) -> None:
    config = CONFIG.replace("models:", "    headers: {{anthropic-beta: a-2026-01-01}}\nmodels:", 1)
    async with claude_in_front_of(vertex, config, tmp_path) as setting:
        create = setting.client.messages.with_raw_response.create
        answer = await create(
            model="chat",
            max_tokens=9,
            messages=[HELLO],
            stream=stream,
            extra_headers={"anthropic-beta": KNOWN},
        )
        text = await answer.http_response.aread()
        request = setting.server.requests[-1]

    assert request.headers["anthropic-beta"] == f"a-2026-01-01,{KNOWN}"
    assert "anthropic_beta" not in request.json
    assert all(json.dumps(one)[1:4].encode() in text for one in ANSWER)


async def test_tokens_are_counted_there(tmp_path: Path) -> None:
    async with claude_in_front_of(vertex, CONFIG, tmp_path) as setting:
        found = await setting.client.messages.count_tokens(
            model="chat", messages=[HELLO], system="Be kind.", tools=[WEATHER]
        )
        (request,) = setting.server.requests

    assert found.input_tokens == 375
    assert request.json == {
        "model": MODEL,
        "anthropic_version": "vertex-2023-10-16",
        "messages": [HELLO],
        "system": "Be kind.",
        "tools": [WEATHER],
    }


async def refused(setting: ClaudeSetting, more: dict[str, object]) -> str:
    body = {"model": "chat", "max_tokens": 9, "messages": [HELLO], **more}
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{setting.gateway.url}/v1/messages", json=body)
    assert answer.status_code in (400, 403)
    return answer.text


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"container": "container_1"}, "container"),
        ({"inference_geo": "us"}, "inference_geo"),
        (
            {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
            "tools[0].type",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "document",
                                "source": {"type": "url", "url": "https://a.test/a.pdf"},
                            }
                        ],
                    }
                ]
            },
            "messages[0].content[0]",
        ),
    ],
    ids=["container", "geography", "code execution", "address"],
)
async def test_what_vertex_lacks_is_refused_by_name(
    tmp_path: Path, more: dict[str, object], named: str
) -> None:
    async with claude_in_front_of(vertex, CONFIG, tmp_path) as setting:
        message = await refused(setting, more)
        asked = setting.server.requests

    assert named in message
    assert not asked


async def test_automatic_caching_is_left_out_and_named(tmp_path: Path) -> None:
    async with claude_in_front_of(vertex, CONFIG, tmp_path) as setting:
        answer = await setting.client.messages.with_raw_response.create(
            model="chat",
            max_tokens=9,
            messages=[HELLO],
            cache_control={"type": "ephemeral"},
            service_tier="auto",
        )
        sent = setting.sent()

    assert sent.keys() == {"anthropic_version", "messages", "max_tokens"}
    dropped = answer.headers["x-gateway-dropped-params"].split(", ")
    assert {"cache_control", "service_tier"} == set(dropped)


async def test_tokens_of_a_google_account_are_fetched(tmp_path: Path) -> None:
    cloud = GoogleCloud()

    async def behave(request: Received, answer: Answer) -> None:
        await (cloud if request.path == "/token" else vertex)(request, answer)

    async with provider(cloud) as google:
        key = service_account(tmp_path, google)
        config = CONFIG.replace(
            "api_key: ya29.fake-0123456789", f'google: {{{{credentials_file: "{key}"}}}}'
        )
        async with claude_in_front_of(behave, config, tmp_path) as setting:
            answer = await setting.client.messages.create(
                model="chat", max_tokens=9, messages=[HELLO]
            )
            request = setting.server.requests[-1]

    assert answer.content[0].to_dict()["text"] == "".join(ANSWER)
    assert request.headers["authorization"] == f"Bearer {cloud.issued[0]}"
