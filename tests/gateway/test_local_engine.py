"""The gateway over a real engine process: its death, its numbers, and whose prompts it reuses."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import httpx
import pytest

from gateway.engines import EngineView
from tests.gateway.serving import Serving, serving
from tests.provider import Provider, provider

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
auth:
  mode: keys
  keys: [{{name: team-a, key: key-a}}, {{name: team-b, key: key-b}}]
  admin_key: key-of-the-operator
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: k}}
  - {{name: here, adapter: local, engine: {{models: [{{name: tiny, path: "bundled:tiny-chat"}}]}}}}
models:
  - {{name: alone, defaults: {{temperature: 0}}, backends: [{{provider: here, model: tiny}}]}}
  - name: both
    policy: in_order
    defaults: {{temperature: 0}}
    backends: [{{provider: here, model: tiny}}, {{provider: remote, model: m}}]
"""
HELLO = {"messages": [{"role": "user", "content": "What is 17 + 25?"}]}
LONG = {**HELLO, "ignore_eos": True, "max_tokens": 900}
SOON_S, START_S = 60.0, 240.0
PROMISED_S = 1.0
"""Within which a dead engine's requests fail; a busy machine gets ten times as much."""


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def pair(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[tuple[Provider, Serving], None]:
    """One gateway for the whole file: an engine's start is the slow part."""
    run_dir: Path = tmp_path_factory.mktemp("run")
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        config = CONFIG.format(url=remote.base_url)
        gateway = await stack.enter_async_context(serving(config, run_dir))
        assert await gateway.state.runtime.wait_ready()
        yield remote, gateway


class Stream:
    """A streamed chat. begun: its first frame is here. rest: all frames, when it has ended."""

    def __init__(self, ask: httpx.AsyncClient, body: Mapping[str, object]) -> None:
        self.begun = asyncio.Event()
        self.rest = asyncio.create_task(self._read(ask, body))

    async def _read(self, ask: httpx.AsyncClient, body: Mapping[str, object]) -> list[str]:
        frames: list[str] = []
        async with ask.stream("POST", "/v1/chat/completions", json=body) as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line:
                    frames.append(line)
                    self.begun.set()
        return frames


@pytest.fixture(scope="module")
def gateway(pair: tuple[Provider, Serving]) -> Serving:
    return pair[1]


def client(gateway: Serving, key: str = "key-a") -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=SOON_S)


def engine(gateway: Serving) -> EngineView:
    return gateway.state.runtime.engines["here"]


async def busy(gateway: Serving, answers: int) -> None:
    """Until the engine has so many."""
    link = gateway.state.runtime.links["here"]
    while sum(one.running for one in (await link.stats()).values()) < answers:  # noqa: ASYNC110  it tells only when asked
        await asyncio.sleep(0.005)


def kill(gateway: Serving) -> float:
    """SIGKILL to the engine; returns the time."""
    pid = engine(gateway).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return time.monotonic()


async def ready_again(gateway: Serving, restarts: int) -> None:
    async with asyncio.timeout(START_S):
        while engine(gateway).restarts <= restarts or not engine(gateway).ready:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.01)


async def test_the_operator_sees_the_engine_and_what_its_models_do(gateway: Serving) -> None:
    async with client(gateway) as ask, client(gateway, "key-of-the-operator") as operator:
        await ask.post("/v1/chat/completions", json={**HELLO, "model": "alone"})
        await asyncio.sleep(1.1)
        (view,) = (await operator.get("/admin/engines")).json()["engines"]

    tiny = view["models"]["tiny"]
    assert (view["name"], view["up"], view["state"]) == ("here", True, "ready")
    assert view["pid"] == engine(gateway).pid
    assert view["restarts"] == engine(gateway).restarts
    assert view["device"] == "cpu"
    assert view["dtype"] in ("float32", "bfloat16")
    assert view["resident_bytes"] > 50 << 20
    assert tiny["num_output_tokens"] > 0
    assert tiny["finished"]["eos_token"] > 0
    assert 0 < tiny["time_to_first_token"]["p50_s"] < SOON_S
    assert tiny["time_between_tokens"]["count"] > 0
    assert tiny["weights_bytes"] > 1 << 20
    assert abs(tiny["loaded_since"] - time.time()) < 600


async def test_metrics_tell_what_the_models_do(gateway: Serving) -> None:
    async with client(gateway) as ask:
        await ask.post("/v1/chat/completions", json={**HELLO, "model": "alone"})
        await asyncio.sleep(1.1)
        text = (await ask.get("/metrics")).text

    of_model = '{engine="here",model="tiny"}'
    assert 'strowger_engine_up{engine="here"} 1.0' in text
    assert number(text, f"strowger_engine_output_tokens_total{of_model}") >= 8
    assert number(text, f"strowger_engine_first_token_seconds_count{of_model}") >= 1
    buckets = [line for line in text.splitlines() if "engine_step_seconds_bucket" in line]
    counts = [float(line.rpartition(" ")[2]) for line in buckets]
    assert counts == sorted(counts)
    assert counts[-1] == number(text, f"strowger_engine_step_seconds_count{of_model}")


async def test_one_keys_prompts_are_reused_for_that_key_alone(gateway: Serving) -> None:
    text = "Tell me everything that there is to know about the number seventeen, please. " * 3
    body = {"model": "alone", "max_tokens": 4, "messages": [{"role": "user", "content": text}]}
    async with client(gateway, "key-a") as a, client(gateway, "key-b") as b:
        usages = [
            (await ask.post("/v1/chat/completions", json=body)).json()["usage"]
            for ask in (a, a, b, b)
        ]

    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
    assert cached[0] == cached[2] == 0
    assert cached[1] == cached[3] > 0


async def test_a_killed_engine_fails_its_requests_at_once_and_serves_again_after_its_restart(
    gateway: Serving,
) -> None:
    """One death for all of this, because a start takes seconds."""
    restarts = engine(gateway).restarts
    async with client(gateway) as ask, client(gateway, "key-of-the-operator") as operator:

        def chat(
            model: str, stream: bool, body: Mapping[str, object]
        ) -> asyncio.Task[httpx.Response]:
            sent = {**body, "model": model, "stream": stream}
            return asyncio.create_task(ask.post("/v1/chat/completions", json=sent))

        whole = [chat("alone", False, LONG) for _ in range(4)]
        streams = [Stream(ask, {**LONG, "model": "alone", "stream": True}) for _ in range(4)]
        moving = chat("both", False, LONG)
        await busy(gateway, 9)
        for stream in streams:
            await stream.begun.wait()

        killed = kill(gateway)
        lost = await asyncio.gather(*whole)
        cut = await asyncio.gather(*(stream.rest for stream in streams))
        took = time.monotonic() - killed
        moved = await moving
        refused = await chat("alone", False, HELLO)
        elsewhere = [await chat("both", stream, HELLO) for stream in (False, True)]
        await asyncio.sleep(1.1)
        metrics = await ask.get("/metrics")
        (view,) = (await operator.get("/admin/engines")).json()["engines"]
        await ready_again(gateway, restarts)
        after = [await chat(model, False, HELLO) for model in ("alone", "both")]

    assert took < 10 * PROMISED_S
    assert [answer.status_code for answer in lost] == [502] * 4
    assert [error(answer.text)["code"] for answer in lost] == ["upstream_lost"] * 4
    assert [error(frames[-1])["code"] for frames in cut] == ["upstream_lost"] * 4
    assert not any("[DONE]" in frame for frames in cut for frame in frames)
    assert refused.status_code == 503
    assert error(refused.text)["code"] == "upstream_starting"
    assert int(refused.headers["retry-after"]) >= 1
    assert {one.headers["x-gateway-backend"] for one in (moved, *elsewhere)} == {"remote/m"}
    assert metrics.status_code == 200
    assert 'strowger_engine_up{engine="here"} 0.0' in metrics.text
    assert 'strowger_engine_restarts_total{engine="here"} 1.0' in metrics.text
    assert (view["up"], view["state"], view["models"]) == (False, "restarting", {})
    assert [one.json()["choices"][0]["message"]["content"] for one in after] == [
        "17 + 25 = 42."
    ] * 2
    assert [one.headers["x-gateway-backend"] for one in after] == ["here/tiny"] * 2


def error(text: str) -> dict[str, str]:
    """The error's envelope, from a body or a frame."""
    return cast(dict[str, str], json.loads(text.removeprefix("data: "))["error"])


def number(metrics: str, name: str) -> float:
    return next(
        float(line.removeprefix(name)) for line in metrics.splitlines() if line.startswith(name)
    )
