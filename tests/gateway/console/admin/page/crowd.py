"""A gateway with five minutes of traffic to three providers, one of them failing.

The minutes are simulated from a seed (no test waits five minutes); later requests are real.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from math import exp, sin
from pathlib import Path

import httpx

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, grouped
from strowger_gateway.gateway.routing.request_record import AttemptRecord
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Behaviour, Received, provider

KEY = "key-of-the-operator"
CONFIG = """
auth: {{admin_key: {key}}}
providers:
  - {{name: north, adapter: openai, base_url: "{north}", api_key: k}}
  - {{name: south, adapter: openai, base_url: "{south}", api_key: k}}
  - {{name: cellar, adapter: openai, base_url: "{cellar}", api_key: k}}
models:
  - name: assistant
    aliases: [gpt-4o]
    policy: weighted
    retry: {{backoff_s: 0.01, max_backoff_s: 0.02}}
    breaker: {{min_requests: 2, cooldown_s: 90}}
    fallback: [small]
    backends:
      - {{provider: north, model: large, weight: 60}}
      - {{provider: south, model: large, weight: 40}}
  - name: small
    backends:
      - {{provider: cellar, model: small, weight: 1}}
      - {{provider: cellar, model: medium, weight: 0}}
{more}
"""
_USUAL = {"north/large": (420, 1900), "south/large": (650, 2600), "cellar/small": (90, 640)}
"""Milliseconds to the first content and to the end."""


def speaking(delay_s: float, sentence: str) -> Behaviour:
    """A provider that returns one sentence, word by word."""

    async def answers(request: Received, answer: Answer) -> None:
        await asyncio.sleep(delay_s)
        words = sentence.split()
        if b'"stream":true' not in request.body.replace(b" ", b""):
            await answer.chat(sentence)
            return
        await answer.stream(*[word + " " for word in words])

    return answers


async def failing(request: Received, answer: Answer) -> None:
    await answer.json({"error": {"message": "out of memory"}}, status=500)


@asynccontextmanager
async def crowded(
    run_dir: Path,
    *,
    seed: int = 11,
    more: str = "",
    equip: Callable[[Gateway], None] | None = None,
) -> AsyncGenerator[Serving]:
    async with AsyncExitStack() as stack:
        north = await stack.enter_async_context(
            provider(speaking(0.04, "17 + 25 = 42. Count ten up from seventeen and fifteen more."))
        )
        south = await stack.enter_async_context(provider(failing))
        cellar = await stack.enter_async_context(provider(speaking(0.01, "42.")))
        config = CONFIG.format(
            key=KEY, more=more, north=north.base_url, south=south.base_url, cellar=cellar.base_url
        )
        up = await stack.enter_async_context(serving(config, run_dir, seed=seed, equip=equip))
        yield up


def remember(up: Serving, now: float, *, seconds: int = 300, seed: int = 3) -> None:
    """Add simulated traffic of the last seconds."""
    draw = random.Random(seed)
    lines = [
        _line(at, second / seconds, draw)
        for second in range(seconds)
        for _ in range(_poisson(7 + 3 * sin(second / 23) + draw.random() * 2, draw))
        for at in [now - seconds + second + draw.random()]
    ]
    up.state.log.series.add(grouped(sorted(lines, key=lambda line: line.time)))


async def ask(up: Serving, times: int) -> None:
    """Send real requests sequentially, half of them streamed."""
    async with httpx.AsyncClient(base_url=up.url, timeout=60) as client:
        for number in range(times):
            body = {
                "model": ("assistant", "assistant", "small", "gpt-4o")[number % 4],
                "messages": [{"role": "user", "content": f"What is 17 + {number}?"}],
                "stream": number % 2 == 0,
            }
            await client.post("/v1/chat/completions", json=body)
        await client.post("/v1/chat/completions", json={"model": "asistant", "messages": []})


def _line(at: float, phase: float, draw: random.Random) -> AccessLine:
    """South is slow and fails in the second half. phase: position in the past, 0 to 1."""
    model = "small" if draw.random() < 0.25 else "assistant"
    first = "cellar/small" if model == "small" else "north/large"
    if model == "assistant" and draw.random() < 0.4:
        first = "south/large"
    attempts: list[AttemptRecord] = []
    backend, slow = first, 1.0
    if first == "south/large":
        slow = 1.0 + 1.5 * exp(-((phase - 0.6) ** 2) / 0.02)
        if draw.random() < 0.25 * exp(-((phase - 0.65) ** 2) / 0.01) + 0.01:
            attempts.append(AttemptRecord(backend=first, outcome="upstream_error", ms=80))
            backend = "north/large"
    begin, whole = _USUAL[backend]
    attempts.append(AttemptRecord(backend=backend, outcome="ok", ms=whole))
    return AccessLine(
        time=at,
        request_id="past",
        surface="openai",
        status=200,
        route=model,
        backend=backend,
        ttft_ms=begin * slow * draw.lognormvariate(0, 0.25),
        ms=whole * slow * draw.lognormvariate(0, 0.3),
        attempts=tuple(attempts),
        prompt_tokens=draw.randrange(20, 400),
        completion_tokens=draw.randrange(10, 300),
    )


def _poisson(mean: float, draw: random.Random) -> int:
    count, product = 0, draw.random()
    while product > exp(-mean):
        count, product = count + 1, product * draw.random()
    return count
