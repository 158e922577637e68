"""Unknown paths: the answer names the right one, and the log records the call."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.http.unserved_apis import LONGEST, MISSING
from strowger_gateway.gateway.observability.telemetry.access_log import MAX_MESSAGE_CHARS
from strowger_gateway.gateway.surfaces.routes import HOT_ROUTES
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "a secret"}]}
CHAT = "POST /v1/chat/completions"
USE = {
    "GET /v1/responses/resp_1": "does not store responses",
    "DELETE /v1/responses/resp_1": "does not store responses",
    "POST /v1/responses/resp_1/cancel": "does not store responses",
    "GET /v1/responses/resp_1/input_items": "does not store responses",
    "POST /responses": "did you mean /v1/responses?",
    "POST /v1/messages/batches": "POST /v1/messages",
    "POST /messages": "without /v1",
    "POST /v1/images/generations": CHAT,
    "POST /v1/audio/transcriptions": "input_audio",
    "POST /v1/audio/speech": "modalities",
    "POST /v1/files": CHAT,
    "GET /v1/batches/b": CHAT,
    "POST /v1/assistants": CHAT,
    "POST /v1/threads/t/runs": CHAT,
    "POST /api/push": "the configuration",
    "POST /api/create": "the configuration",
    "DELETE /api/delete": "the configuration",
    "POST /api/blobs/sha256:0": "the configuration",
    "POST /v1beta/models/gemini-3-pro:batchGenerateContent": ":generateContent",
    "POST /v1beta/models/gemini-3-pro:asyncBatchEmbedContent": ":generateContent",
    "POST /v1/projects/p/locations/l/publishers/google/models/m:predict": ":embedContent",
    "POST /v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict": "/v1/messages",
    "POST /v1beta/interactions": ":generateContent",
    "GET /v1beta/cachedContents": "whole conversation",
    "POST /upload/v1beta/files": "inlineData",
    "POST /v1beta/openai/videos": "ends in /v1",
    "POST /openai/deployments/gpt/chat/completions": "ends in /v1",
    "POST /model/amazon.nova-pro-v1:0/converse": CHAT,
    "POST /v2/chat": CHAT,
    "POST /chat/completions": "did you mean /v1/chat/completions?",
    "GET /api/v0/models": "GET /v1/models",
    "POST /v1/ocr": CHAT,
    "POST /openai/deployments/gpt/embeddings": "ends in /v1",
}


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of one gateway, for calls that leave nothing."""
    async with (
        serving(one_model("http://127.0.0.1:9/v1"), tmp_path_factory.mktemp("run")) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        yield client


@pytest.mark.parametrize("called", USE)
async def test_a_known_api_that_is_missing_names_what_to_use_instead(
    called: str, shared: httpx.AsyncClient
) -> None:
    method, path = called.split()

    answer = await shared.request(method, path, content=b"{}")

    assert answer.status_code == 404
    assert USE[called] in answer.text
    assert answer.json().get("error") or answer.json()["error_code"]


def test_no_row_hides_a_route_that_is_served() -> None:
    served = [route.path.replace("{model}", "m").replace("{version}", "1") for route in HOT_ROUTES]

    assert [path for path in served for row in MISSING if row.path.fullmatch(path)] == []


async def test_a_call_to_an_unknown_path_is_one_bounded_line_with_the_answers_ids(
    tmp_path: Path,
) -> None:
    long = "/v1/" + "x" * 5000
    async with (
        serving(one_model("http://127.0.0.1:9/v1"), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        first = await client.post("/v1/assistants", json={"input": "a secret of the client's"})
        mine = await client.get("/nowhere", headers={"x-request-id": "mine"})
        other = await client.put("/v1/models")
        huge = await client.get(long)
        found = [await client.get(path) for path in ("/healthz", "/v1/models")]
        metrics = (await client.get("/metrics")).text
        lines = gateway.access_lines()

    assert [(line.method, line.path[:20], line.status, line.error) for line in lines] == [
        ("POST", "/v1/assistants", 404, "unknown_url"),
        ("GET", "/nowhere", 404, "unknown_url"),
        ("PUT", "/v1/models", 405, "method_not_allowed"),
        ("GET", long[:20], 404, "unknown_url"),
    ]
    assert [line.request_id for line in lines] == [
        answer.headers["x-gateway-request-id"] for answer in (first, mine, other, huge)
    ]
    assert first.headers["x-request-id"] == first.headers["x-gateway-request-id"]
    assert (mine.headers["x-request-id"], lines[1].client_request_id) == ("mine", "mine")
    assert lines[0].message == first.json()["error"]["message"]
    assert "secret" not in str(lines)
    assert len(huge.content) < LONGEST + 200
    assert len(lines[3].path) == 500
    assert len(lines[3].message) <= MAX_MESSAGE_CHARS + 1
    assert all(answer.headers["x-request-id"] for answer in found)
    assert "/moderations" not in metrics
    assert "nowhere" not in metrics


async def test_a_400s_line_has_the_field_and_the_message_and_no_prompt(
    tmp_path: Path,
) -> None:
    async with (
        serving(one_model("http://127.0.0.1:9/v1"), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        answer = await client.post("/v1/chat/completions", json={**HELLO, "temperature": 9})
        (line,) = gateway.access_lines()

    assert answer.status_code == line.status == 400
    assert line.param == "temperature"
    assert line.message == answer.json()["error"]["message"]
    assert "a secret" not in str(line)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_vendors_error_is_one_line_without_terminal_commands(
    stream: bool, tmp_path: Path
) -> None:
    evil = "top_p\u001b[31m is\u009b\u2028 wrong\r\n" + "y" * 3000

    async def refuses(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": evil, "param": "top_p", "code": "bad"}}, 400)

    async with (
        provider(refuses) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        await client.post("/v1/chat/completions", json={**HELLO, "stream": stream})
        (line,) = gateway.access_lines()
        log = gateway.log.getvalue()

    assert (line.status, line.error, line.param) == (400, "bad", "top_p")
    assert line.message.startswith("top_p\\x1b[31m is\\x9b")
    assert line.message.isprintable()
    assert len(line.message) < MAX_MESSAGE_CHARS + 50
    assert log.count(b"\n") == 1
