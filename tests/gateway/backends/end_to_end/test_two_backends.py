"""A remote provider and the local engine behind one name: the split, an outage, a disconnect."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from tests.gateway.serving import Serving, serving
from tests.gateway.shared_engine import SharedEngine
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: k}}
  - {here}
models:
  - name: chat
    defaults: {{temperature: 0}}
    backends:
      - {{provider: remote, model: m, weight: 90}}
      - {{provider: here, model: tiny, weight: 10}}
  - {{name: tiny, defaults: {{temperature: 0}}, backends: [{{provider: here, model: tiny}}]}}
"""
HELLO = {
    "model": "chat",
    "max_tokens": 3,
    "messages": [{"role": "user", "content": "What is 17 + 25?"}],
}


@pytest.fixture(scope="module")
async def pair(
    tmp_path_factory: pytest.TempPathFactory, engine: SharedEngine
) -> AsyncGenerator[tuple[Provider, Serving], None]:
    """One provider and one gateway for the whole file."""
    run_dir: Path = tmp_path_factory.mktemp("run")
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        config = CONFIG.format(url=remote.base_url, here=engine.provider)
        gateway = await stack.enter_async_context(
            serving(config, run_dir, seed=20_26, engine=engine)
        )
        yield remote, gateway


async def ask(client: httpx.AsyncClient, **more: object) -> httpx.Response:
    return await client.post("/v1/chat/completions", json={**HELLO, **more})


async def running(gateway: Serving) -> int:
    """Sequences that the engine has, running or waiting."""
    upstream = gateway.state.runtime.upstreams["here"]
    assert isinstance(upstream, LocalUpstream)
    return sum(one.running + one.waiting for one in (await upstream.stats()).values())


async def test_the_local_model_adds(pair: tuple[Provider, Serving]) -> None:
    _, gateway = pair
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        whole = await ask(client, model="tiny", max_tokens=30)
        stream = await ask(client, model="tiny", max_tokens=30, stream=True)

    assert whole.json()["choices"][0]["message"]["content"] == "17 + 25 = 42."
    assert whole.json()["choices"][0]["finish_reason"] == "stop"
    assert whole.headers["x-gateway-backend"] == "here/tiny"
    assert _text(stream) == "17 + 25 = 42."


@pytest.mark.parametrize("requests", [400, pytest.param(1000, marks=pytest.mark.nightly)])
async def test_weights_split_the_traffic_within_binomial_bounds(
    pair: tuple[Provider, Serving], requests: int
) -> None:
    _, gateway = pair
    split: Counter[str] = Counter()
    limits = httpx.Limits(max_connections=32)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=120, limits=limits) as client:

        async def some() -> None:
            for _ in range(requests // 32 + 1):
                answer = await ask(client)
                assert answer.status_code == 200
                split[answer.headers["x-gateway-backend"]] += 1

        await asyncio.gather(*(some() for _ in range(32)))

    total = split.total()
    spread = 3.5 * (total * 0.9 * 0.1) ** 0.5
    assert total >= requests
    assert abs(split["remote/m"] - 0.9 * total) < spread


@pytest.mark.parametrize("wait_for", [b"", b"data: "])
async def test_a_client_that_disconnects_frees_the_local_sequence(
    wait_for: bytes, pair: tuple[Provider, Serving]
) -> None:
    """`ignore_eos` keeps the sequence going to the context's end, so only a cancel ends it soon."""
    _, gateway = pair
    port = int(gateway.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    long = {"model": "tiny", "ignore_eos": True, "max_tokens": 900, "stream": bool(wait_for)}
    body = json.dumps({**HELLO, **long}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: [::1]\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    if wait_for:
        await reader.readuntil(wait_for)
    while await running(gateway) == 0:  # noqa: ASYNC110  the engine reports only on request
        await asyncio.sleep(0.002)

    writer.close()

    for _ in range(100):
        if await running(gateway) == 0:
            break
        await asyncio.sleep(0.01)
    assert await running(gateway) == 0
    line = gateway.access_lines()[-1]
    assert line.status == 499
    assert (line.completion_tokens or 0) < 900


async def test_a_slow_engine_fails_over_and_cancels_its_work(
    pair: tuple[Provider, Serving], engine: SharedEngine, tmp_path: Path
) -> None:
    """What was not streamed is answered elsewhere; a stream is cut, and its sequences are freed."""
    short = "adapter: local, timeouts: {total_s: 0.6},"
    here = engine.provider.replace("adapter: local,", short)
    config = (
        CONFIG.format(url=pair[0].base_url, here=here)
        + """
  - name: ordered
    policy: in_order
    backends: [{provider: here, model: tiny}, {provider: remote, model: m}]
"""
    )
    long = {"model": "ordered", "ignore_eos": True, "max_tokens": 900, "n": 16}
    async with serving(config, tmp_path, engine=engine) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            whole, stream = await asyncio.gather(
                ask(client, **long), ask(client, **long, stream=True)
            )
        for _ in range(200):
            if await running(gateway) == 0:
                break
            await asyncio.sleep(0.01)
        left = await running(gateway)
        lines = {line.stream: line for line in gateway.access_lines()}

    assert whole.headers["x-gateway-backend"] == "remote/m"
    assert [one.outcome for one in lines[False].attempts] == ["upstream_timeout", "ok"]
    assert lines[True].attempts[0].outcome == "upstream_timeout"
    assert "[DONE]" not in stream.text or lines[True].backend == "remote/m"
    assert left == 0


async def test_after_an_outage_the_local_engine_answers_everything(
    pair: tuple[Provider, Serving],
) -> None:
    """Also what was in flight, unless it was streamed and its client had seen content."""
    remote, gateway = pair

    async def stuck(request: Received, answer: Answer) -> None:
        await answer.gone.wait()

    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        remote.behaviour = stuck
        seen = len(remote.requests)
        in_flight = [asyncio.create_task(ask(client)) for _ in range(20)]
        await remote.until(lambda: len(remote.requests) - seen >= 12, 30)
        await remote.stop()
        begun_before = await asyncio.gather(*in_flight)
        begun_later = [await ask(client, stream=bool(number % 2)) for number in range(30)]
    remote.behaviour = answers

    assert [answer.status_code for answer in begun_before + begun_later] == [200] * 50
    assert {answer.headers["x-gateway-backend"] for answer in begun_later} == {"here/tiny"}
    assert any(int(answer.headers["x-gateway-attempts"]) > 1 for answer in begun_before)


def _text(stream: httpx.Response) -> str:
    frames = [
        json.loads(line[6:]) for line in stream.text.split("\n\n") if line.startswith("data: {")
    ]
    return "".join(frame["choices"][0]["delta"].get("content") or "" for frame in frames)
