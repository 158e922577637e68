"""Failures as Databricks' clients see them, before an answer and during it."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import httpx
import openai
import pytest

from tests.gateway.serving import one_model, serving
from tests.gateway.surfaces.databricks.mlflow_client import deployments
from tests.stand_ins.provider import (
    Answer,
    Behaviour,
    Received,
    delta_body,
    provider,
    silent,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("collected"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

INVOKE = "/serving-endpoints/chat/invocations"
HELLO: dict[str, object] = {"messages": [{"role": "user", "content": "hi"}]}
KEYS = """
  - {name: spare, backends: [{provider: remote, model: m-2}]}
auth:
  mode: keys
  keys: [{name: team-a, key: key-of-team-a, models: [chat]}]
server: {max_body_bytes: 1000}
"""
GOOD_KEY = {"authorization": "Bearer key-of-team-a"}


async def busy(request: Received, answer: Answer) -> None:
    await answer.json({"error": {"message": "slow down"}}, 429, {"retry-after": "7"})


async def broken(request: Received, answer: Answer) -> None:
    await answer.body(b"what?", "application/json")


async def conflict(request: Received, answer: Answer) -> None:
    await answer.json({"error": {"message": "not now"}}, 409)


async def cut(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    await answer.event(delta_body({"role": "assistant", "content": "half an"}))
    await asyncio.sleep(0.05)
    answer.close()


async def slow(request: Received, answer: Answer) -> None:
    await asyncio.sleep(0.3)
    await answer.stream("hel", "lo")


@pytest.mark.parametrize(
    ("behaviour", "status", "code"),
    [
        (busy, 429, "REQUEST_LIMIT_EXCEEDED"),
        (broken, 502, "INTERNAL_ERROR"),
        (silent, 504, "DEADLINE_EXCEEDED"),
        (conflict, 409, "RESOURCE_CONFLICT"),
    ],
)
async def test_a_backends_failure_has_the_services_code(
    behaviour: Behaviour, status: int, code: str, tmp_path: Path
) -> None:
    deadline = "    deadline_s: 0.5" if behaviour is silent else ""
    async with (
        provider(behaviour) as a,
        serving(one_model(a.base_url, model_more=deadline), tmp_path) as gateway,
    ):
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            answer = await client.post(INVOKE, json=HELLO)

    assert answer.status_code == status
    assert set(answer.json()) == {"error_code", "message"}
    assert answer.json()["error_code"] == code
    assert status != 429 or answer.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status", "code"),
    [
        ("POST", INVOKE, {}, b"{}", 401, "UNAUTHENTICATED"),
        ("GET", "/api/2.0/serving-endpoints", {}, b"", 401, "UNAUTHENTICATED"),
        ("POST", INVOKE, GOOD_KEY, b"{", 400, "BAD_REQUEST"),
        (
            "POST",
            INVOKE.replace("chat", "spare"),
            GOOD_KEY,
            b'{"prompt":"x"}',
            404,
            "RESOURCE_DOES_NOT_EXIST",
        ),
        (
            "POST",
            INVOKE.replace("chat", "none"),
            GOOD_KEY,
            b'{"prompt":"x"}',
            404,
            "RESOURCE_DOES_NOT_EXIST",
        ),
        (
            "GET",
            "/api/2.0/serving-endpoints/spare",
            GOOD_KEY,
            b"",
            404,
            "RESOURCE_DOES_NOT_EXIST",
        ),
        ("POST", "/serving-endpoints/chat", GOOD_KEY, b"{}", 404, "NOT_FOUND"),
        ("GET", "/api/2.0/preview/scim/v2/Me", GOOD_KEY, b"", 404, "NOT_FOUND"),
        ("GET", "/.well-known/databricks-config", {}, b"", 404, "NOT_FOUND"),
        ("GET", INVOKE, GOOD_KEY, b"", 405, "INVALID_PARAMETER_VALUE"),
        ("POST", "/api/2.0/serving-endpoints", GOOD_KEY, b"{}", 405, "INVALID_PARAMETER_VALUE"),
        (
            "DELETE",
            "/api/2.0/serving-endpoints/chat",
            GOOD_KEY,
            b"",
            405,
            "INVALID_PARAMETER_VALUE",
        ),
        ("POST", INVOKE, GOOD_KEY, b" " * 1001, 413, "INVALID_PARAMETER_VALUE"),
        (
            "POST",
            INVOKE,
            {**GOOD_KEY, "content-type": "text/csv"},
            b"{}",
            415,
            "INVALID_PARAMETER_VALUE",
        ),
    ],
)
async def test_a_callers_mistake_has_the_services_code(
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    status: int,
    code: str,
    tmp_path: Path,
) -> None:
    async with provider() as a, serving(one_model(a.base_url, KEYS), tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            sent = {"content-type": "application/json", **headers}
            answer = await client.request(method, path, headers=sent, content=body)

    assert answer.status_code == status
    assert set(answer.json()) == {"error_code", "message"}
    assert answer.json()["error_code"] == code
    assert a.requests == []


async def test_a_gateway_that_goes_down_is_temporarily_unavailable(tmp_path: Path) -> None:
    async with provider() as a, serving(one_model(a.base_url), tmp_path) as gateway:
        gateway.state.admission.refuse()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            answer = await client.post(INVOKE, json=HELLO)

    assert answer.status_code == 503
    assert answer.json()["error_code"] == "TEMPORARILY_UNAVAILABLE"


async def test_a_stream_that_fails_says_so_and_has_no_end_mark(tmp_path: Path) -> None:
    async with provider(cut) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            answer = await client.post(INVOKE, json={**HELLO, "stream": True})

    *_, last = answer.text.strip().split("\n\n")
    failure = json.loads(last.removeprefix("data: "))
    assert answer.headers["served-model-name"] == "remote/m-1"
    assert failure["error_code"] == "INTERNAL_ERROR"
    assert failure["message"] == failure["error"]["message"]
    assert "[DONE]" not in answer.text


async def test_openais_client_takes_a_failed_stream_for_one(tmp_path: Path) -> None:
    async with provider(cut) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        url = f"{gateway.url}/serving-endpoints"
        async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
            stream = await client.chat.completions.create(
                model="chat", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            with pytest.raises(openai.APIError, match="remote: "):
                async for _ in stream:
                    pass


async def test_mlflow_reads_how_a_stream_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with provider(cut) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        client = await asyncio.to_thread(deployments, gateway.url, "k", monkeypatch)
        chunks = await asyncio.to_thread(
            lambda: list(client.predict_stream(endpoint="chat", inputs=HELLO))
        )

    assert chunks[-1]["error_code"] == "INTERNAL_ERROR"


async def test_mlflow_waits_for_a_stream_that_is_silent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The keep-alive frames that the gateway sends do not break this client."""
    kept = "server: {commit_after_s: 0.05, sse_keepalive_s: 0.05}"
    async with provider(slow) as a, serving(one_model(a.base_url, kept), tmp_path) as gateway:
        client = await asyncio.to_thread(deployments, gateway.url, "k", monkeypatch)
        chunks = await asyncio.to_thread(
            lambda: list(client.predict_stream(endpoint="chat", inputs=HELLO))
        )
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as raw:
            body = (await raw.post(INVOKE, json={**HELLO, "stream": True})).text

    said = [cast("list[dict[str, dict[str, str]]]", one["choices"])[0]["delta"] for one in chunks]
    assert "".join(delta.get("content", "") for delta in said) == "hello"
    assert body.startswith("\n\n")
    assert ": keep-alive" not in body
