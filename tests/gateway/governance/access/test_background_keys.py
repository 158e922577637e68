"""A background key waits behind all others, on every API."""

import asyncio
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

AUTH = """
auth:
  mode: keys
  keys:
    - {name: app, key: key-of-the-app}
    - {name: batch, key: key-of-the-batch, background: true, max_priority: 1}
"""
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("path", "extra"),
    [
        ("/v1/chat/completions", {}),
        ("/v1/chat/completions", {"priority": 1, "stream": True}),
        ("/v1/messages", {"max_tokens": 9}),
    ],
)
async def test_requests_of_a_background_key_wait_behind_those_that_come_later(
    tmp_path: Path, path: str, extra: dict[str, object]
) -> None:
    """One connection, held by a request; then ten of the batch wait, and three of the app come."""
    free, order = asyncio.Event(), list[str]()

    async def slow(request: Received, answer: Answer) -> None:
        messages = cast("list[dict[str, str]]", request.json["messages"])
        order.append(messages[-1]["content"])
        await free.wait()
        await answers(request, answer)

    async with provider(slow) as remote:
        config = one_model(remote.base_url, AUTH).replace(
            "adapter: openai", "adapter: openai\n    max_connections: 1"
        )
        async with (
            serving(config, tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):

            async def ask(key: str, text: str) -> int:
                messages = [{"role": "user", "content": text}]
                answer = await client.post(
                    path,
                    json={"model": "chat", "messages": messages, **extra},
                    headers={"authorization": f"Bearer key-of-the-{key}"},
                )
                return answer.status_code

            tasks = [asyncio.create_task(ask("batch", "first"))]
            await remote.until(lambda: order == ["first"])
            tasks += [asyncio.create_task(ask("batch", f"batch {n}")) for n in range(10)]
            await asyncio.sleep(0.3)
            tasks += [asyncio.create_task(ask("app", f"app {n}")) for n in range(3)]
            await asyncio.sleep(0.3)
            free.set()
            statuses = await asyncio.gather(*tasks)

    assert set(statuses) == {200}
    assert sorted(order[1:4]) == ["app 0", "app 1", "app 2"]
    assert len(order) == 14
