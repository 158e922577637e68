"""A gateway over real sockets whose first backend becomes slow."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

SLOW_S = 0.8


class Backends:
    """Both answer; the first one late, once it is slow."""

    def __init__(self) -> None:
        self.slow = False

    async def __call__(self, request: Received, answer: Answer) -> None:
        if self.slow and request.json["model"] == "first":
            await asyncio.sleep(SLOW_S)
        await answers(request, answer)


def config(url: str, more: str) -> str:
    return f"""
providers:
  - {{name: a, adapter: openai, base_url: {url}, api_key: k}}
  - {{name: b, adapter: openai, base_url: {url}, api_key: k}}
models:
  - name: chat
    policy: in_order
    {more}
    backends: [{{provider: a, model: first}}, {{provider: b, model: second}}]
"""


async def ask(gateway: Serving, *, stream: bool) -> str:
    """The backend that answered."""
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    return answer.headers["x-gateway-backend"]


async def later(gateway: Serving, place: int, *, stream: bool) -> None:
    """Of answers within a millisecond one is looked at."""
    await asyncio.sleep(0.05 * place)
    await ask(gateway, stream=stream)


async def known(gateway: Serving, *, stream: bool) -> None:
    """Let the gateway learn what is normal. It looks at an answer per tenth of a second."""
    for _ in range(7):
        await ask(gateway, stream=stream)
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_the_second_backend_gets_the_requests_while_the_first_is_slow(
    stream: bool, tmp_path: Path
) -> None:
    backends = Backends()
    async with provider(backends) as remote:
        async with serving(config(remote.base_url, ""), tmp_path) as gateway:
            await known(gateway, stream=stream)
            backends.slow = True
            await asyncio.gather(*(later(gateway, place, stream=stream) for place in range(4)))
            after = [await ask(gateway, stream=stream) for _ in range(5)]

    assert after == ["b/second"] * 5


async def test_a_model_that_keeps_its_order_stays_with_the_slow_one(tmp_path: Path) -> None:
    backends = Backends()
    async with provider(backends) as remote:
        async with serving(config(remote.base_url, "on_slow: keep"), tmp_path) as gateway:
            await known(gateway, stream=True)
            backends.slow = True
            await asyncio.gather(*(ask(gateway, stream=True) for _ in range(4)))

            assert await ask(gateway, stream=True) == "a/first"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_backend_that_keeps_losing_against_hedges_is_asked_second(
    stream: bool, tmp_path: Path
) -> None:
    """Also one that has been slow from the beginning, so that nothing is known to be normal."""
    backends = Backends()
    backends.slow = True
    more = "hedge_after_s: 0.1"
    async with provider(backends) as remote:
        async with serving(config(remote.base_url, more), tmp_path) as gateway:
            for _ in range(3):
                assert await ask(gateway, stream=stream) == "b/second"
            await ask(gateway, stream=stream)

            lines = gateway.access_lines()

    assert [one.backend for one in lines[-1].attempts] == ["b/second"]
