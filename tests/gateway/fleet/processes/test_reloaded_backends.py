"""A reload that corrects a broken backend: every worker tries it, also those that start later."""

import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from tests.gateway.commanded import Commanded, connected, pid_of
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

CONFIG = """
server: {{workers: 2}}
providers: [{{name: p, adapter: openai, base_url: "{url}", api_key: k}}]
models:
  - {{name: chat, retry: {{attempts: 1}}, backends: [{{provider: p, model: m}}]}}
  - {{name: "any/*", retry: {{attempts: 1}}, backends: [{{provider: p, model: "*"}}]}}
"""


async def limited(request: Received, answer: Answer) -> None:
    """No request for an hour."""
    await answer.json({"error": {"message": "later"}}, 429, headers={"retry-after": "3600"})


async def ask(client: httpx.AsyncClient, model: str) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return (await client.post("/v1/chat/completions", json=body)).status_code


async def ask_all(up: Commanded) -> set[int]:
    """Both models at both workers."""
    async with AsyncExitStack() as stack:
        clients = [await connected(up, stack, worker) for worker in (0, 1)]
        return {await ask(client, model) for client in clients for model in ("chat", "any/m")}


async def test_a_worker_that_starts_after_a_reload_knows_nothing_of_the_backend_before_it(
    tmp_path: Path,
) -> None:
    async with provider(limited) as wrong, provider(answers) as right:
        text = CONFIG.format(url=wrong.base_url)
        async with forked(tmp_path / "config.yaml", text) as up:
            before = await ask_all(up)
            await up.reload(CONFIG.format(url=right.base_url))
            reloaded = await ask_all(up)
            since = len(up.lines)
            async with AsyncExitStack() as stack:
                doomed = pid_of(await connected(up, stack, 0))
                os.kill(doomed, signal.SIGKILL)
            await up.said("killed by signal 9", since=since)
            replaced = await ask_all(up)

    assert (before, reloaded, replaced) == ({429}, {200}, {200})
