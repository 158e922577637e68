"""Streams through nginx and Caddy as deploy/ configures them: event by event, and disconnects."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.deploy.proxies import SOON_S, Start, caddy, installed, nginx, running
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, delta_body, provider

pytestmark = pytest.mark.anyio

PROXIES = [
    pytest.param(
        start, marks=pytest.mark.skipif(not installed(name), reason=f"{name} is not installed")
    )
    for name, start in (("nginx", nginx), ("caddy", caddy))
]
CHAT = "/v1/chat/completions"
BODY = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
WORDS = ("one", "two", "three")


class Paced:
    """A provider that sends the next word only when the client has the one before."""

    def __init__(self) -> None:
        self.received = asyncio.Semaphore(0)

    async def __call__(self, request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.event(delta_body({"role": "assistant", "content": ""}))
        for word in WORDS:
            await answer.text(word)
            await self.received.acquire()
        await answer.end_stream()


@pytest.mark.parametrize("start", PROXIES)
async def test_a_streams_events_pass_a_proxy_one_by_one(start: Start, tmp_path: Path) -> None:
    paced = Paced()
    seen: list[str] = []
    done = False
    async with (
        asyncio.timeout(SOON_S),
        provider(paced) as backend,
        serving(one_model(backend.base_url), tmp_path) as gateway,
        running(start, tmp_path, urlsplit(gateway.url).port or 0) as proxy,
        httpx.AsyncClient(base_url=proxy.url, verify=proxy.trust, timeout=SOON_S) as client,
        client.stream("POST", CHAT, json=BODY) as answer,
    ):
        async for line in answer.aiter_lines():
            done = done or line == "data: [DONE]"
            for word in WORDS:
                if f'"{word}"' in line:
                    seen.append(word)
                    paced.received.release()

    assert answer.status_code == 200
    assert seen == list(WORDS)
    assert done


@pytest.mark.parametrize("start", PROXIES)
async def test_a_clients_disconnect_passes_a_proxy(start: Start, tmp_path: Path) -> None:
    async with (
        asyncio.timeout(SOON_S),
        provider(Paced()) as backend,
        serving(one_model(backend.base_url), tmp_path) as gateway,
        running(start, tmp_path, urlsplit(gateway.url).port or 0) as proxy,
    ):
        async with (
            httpx.AsyncClient(base_url=proxy.url, verify=proxy.trust, timeout=SOON_S) as client,
            client.stream("POST", CHAT, json=BODY) as answer,
        ):
            async for line in answer.aiter_lines():
                if '"one"' in line:
                    break
        await backend.until(lambda: backend.hung_up == 1)
        lines = gateway.access_lines()
        while not lines:
            await asyncio.sleep(0.02)
            lines = gateway.access_lines()

    assert [one.status for one in lines] == [499]


@pytest.mark.parametrize("start", PROXIES)
async def test_the_gateway_logs_the_client_of_a_proxy_and_not_what_it_claims(
    start: Start, tmp_path: Path
) -> None:
    config = one_model("http://127.0.0.1:1/v1", "server: {trusted_proxies: [127.0.0.0/8]}\n")
    async with (
        asyncio.timeout(SOON_S),
        serving(config, tmp_path) as gateway,
        running(start, tmp_path, urlsplit(gateway.url).port or 0) as proxy,
        httpx.AsyncClient(base_url=proxy.url, verify=proxy.trust, timeout=SOON_S) as client,
    ):
        claimed = {"x-forwarded-for": "203.0.113.9"}
        await client.post(CHAT, json={**BODY, "model": "unknown"}, headers=claimed)
        lines = gateway.access_lines()
        while not lines:
            await asyncio.sleep(0.02)
            lines = gateway.access_lines()

    assert [one.client_address for one in lines] == ["127.0.0.1"]
