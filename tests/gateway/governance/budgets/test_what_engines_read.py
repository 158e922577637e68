"""What a request to a local engine costs that ends early: what the engine says that it computed."""

import asyncio
import contextlib
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.schemas.errors import Unavailable
from tests.gateway.routing.failures.engine_stand_in import Asked, Conduct, Door, stand_ins
from tests.gateway.serving import serving

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {name: here, adapter: local, engine: {models: [{name: m, path: "bundled:tiny-chat"}]},
     timeouts: {connect_s: 1, first_token_s: 0.6, between_tokens_s: 0.6, total_s: 5}}
models: [{name: chat, retry: {attempts: 1}, backends: [{provider: here, model: m}]}]
"""
TEXT = "word " * 800
PROMPT = 1004
"""Tokens by the gateway's estimate."""


async def says_nothing(asked: Asked) -> None:
    await asked.begin()
    await asked.gone.wait()


async def stalls(asked: Asked) -> None:
    await asked.begin()
    await asked.say("hel", 11, 1)
    await asked.gone.wait()


async def dies(asked: Asked) -> None:
    await asked.begin()
    asked.die()


async def dies_after_a_token(asked: Asked) -> None:
    await asked.begin()
    await asked.say("hel", 11, 1)
    await asyncio.sleep(0.1)
    asked.die()


async def is_full(asked: Asked) -> None:
    await asked.fail(Unavailable("too many requests wait"))


async def ask(client: httpx.AsyncClient, body: object, *, leaves: bool) -> None:
    """leaves: with the first piece of text."""
    async with client.stream("POST", "/v1/chat/completions", json=body, timeout=20) as answer:
        async for line in answer.aiter_lines():
            if leaves and '"content":"hel"' in line:
                return


@pytest.mark.parametrize("how", ["whole", "stream", "leaves"])
@pytest.mark.parametrize(
    ("conduct", "door", "tokens", "source"),
    [
        (says_nothing, "opens", PROMPT, "estimated"),
        (stalls, "opens", 7 + 1, "reported"),
        (dies, "opens", PROMPT, "estimated"),
        (dies_after_a_token, "opens", 7 + 1, "reported"),
        (is_full, "opens", 0, ""),
        (says_nothing, "gone", 0, ""),
    ],
    ids=["nothing", "stalls", "dies", "dies-later", "full", "gone"],
)
async def test_an_engine_is_paid_for_what_it_has_read_and_drawn(
    conduct: Conduct, door: Door, tokens: int, source: str, how: str, tmp_path: Path
) -> None:
    async with (
        stand_ins(tmp_path, conduct, {"here": door}) as engines,
        serving(CONFIG, tmp_path, engine=engines) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60) as client,
    ):
        body = {
            "model": "chat",
            "messages": [{"role": "user", "content": TEXT}],
            "stream": how != "whole",
        }
        asking = asyncio.create_task(ask(client, body, leaves=how == "leaves"))
        if how == "leaves" and conduct is says_nothing and door == "opens":
            await engines.until(lambda: bool(engines.asked))
            asking.cancel()
        with contextlib.suppress(asyncio.CancelledError, httpx.RemoteProtocolError):
            await asking
        line: AccessLine | None = None
        async with asyncio.timeout(20):
            while line is None:
                await asyncio.sleep(0.01)
                line = next(iter(up.access_lines()), None)

    assert ((line.prompt_tokens or 0) + (line.completion_tokens or 0), line.usage_source) == (
        tokens,
        source,
    )
