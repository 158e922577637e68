"""The application under another ASGI server, as somebody mounts it: chats, streams, disconnects."""

import asyncio
import io
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.http.app import build_app
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from tests.gateway.by_hand import connect, head
from tests.gateway.serving import one_model
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


async def slowly(request: Received, answer: Answer) -> None:
    if request.json.get("user") == "waits":
        await answer.begin_stream()
        await answer.text("first")
        await asyncio.Event().wait()
    elif request.json.get("stream"):
        await answer.begin_stream()
        await answer.text("some")
        await answer.end_stream()
    else:
        await answer.chat()


@asynccontextmanager
async def mounted(folder: Path) -> AsyncGenerator[tuple[str, Gateway, Provider], None]:
    async with provider(slowly) as remote:
        config = read_config(one_model(remote.base_url), source="config.yaml", env={})
        log = AccessLog(io.BytesIO(), "json")
        gateway = Gateway(Runtime(config, run_dir=folder), log)
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(build_app(gateway), log_config=None, timeout_graceful_shutdown=1)
        )
        running = asyncio.create_task(server._serve([listener]))  # pyright: ignore[reportPrivateUsage]
        while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0.005)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", gateway, remote
        server.should_exit = True
        await running
        await gateway.runtime.close()
        log.close()


async def test_chats_are_answered_whole_and_as_streams(tmp_path: Path) -> None:
    async with (
        mounted(tmp_path) as (url, _, _),
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        whole = await client.post("/v1/chat/completions", json=CHAT)
        stream = await client.post("/v1/chat/completions", json={**CHAT, "stream": True})
        wrong = await client.post("/v1/chat/completions", content=b"{")
        models = await client.get("/v1/models")

    assert whole.json()["choices"][0]["message"]["content"]
    assert stream.text.endswith("data: [DONE]\n\n")
    assert wrong.status_code == 400
    assert models.json()["data"][0]["id"] == "chat"


async def test_a_client_that_disconnects_ends_the_call_of_its_provider(tmp_path: Path) -> None:
    async with mounted(tmp_path) as (url, gateway, remote):
        client = await connect(url)
        body = json.dumps({**CHAT, "stream": True, "user": "waits"}).encode()
        await client.say(head(f"content-length: {len(body)}\r\n") + body)
        await client.receives()
        client.writer.close()

        async with asyncio.timeout(60):
            while gateway.admission.in_flight:  # noqa: ASYNC110  no event to wait for
                await asyncio.sleep(0.005)
        assert len(remote.requests) == 1
