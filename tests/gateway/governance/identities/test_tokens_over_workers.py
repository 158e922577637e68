"""Tokens with several workers, through a reload and a worker's death: real processes."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from tests.gateway.commanded import connected, pid_of
from tests.gateway.forked_commands import forked
from tests.gateway.governance.identities.test_tokens import CHAT, CONFIG, HELLO
from tests.gateway.serving import one_model
from tests.stand_ins.identity_provider import identity_provider
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio


async def test_every_worker_accepts_tokens_after_a_reload_and_after_a_restart(
    tmp_path: Path,
) -> None:
    async with identity_provider() as issuer, provider() as remote, AsyncExitStack() as stack:
        text = CONFIG.format(issuer=issuer.url, fields="", more="server: {workers: 2}")
        text = text.replace("  mode: keys", "  mode: keys\n  admin_key: key-of-the-operator")
        accepts = one_model(remote.base_url, text)
        refuses = accepts.replace("[another, strowger]", "[another]")
        bearer = {"authorization": f"Bearer {issuer.token()}"}

        async def statuses(clients: list[httpx.AsyncClient]) -> list[int]:
            answers = [await one.post(CHAT, json=HELLO, headers=bearer) for one in clients]
            return [answer.status_code for answer in answers]

        up = await stack.enter_async_context(forked(tmp_path / "config.yaml", refuses))
        both = [await connected(up, stack, worker) for worker in (0, 1)]
        before = await statuses(both)
        await up.reload(accepts)
        after = await statuses(both)
        fetches = issuer.fetches

        os.kill(pid_of(both[1]), signal.SIGKILL)
        await up.said("restarting in")
        async with asyncio.timeout(60):
            again = await statuses([both[0], await connected(up, stack, 1)])
        metrics = (await both[0].get("/metrics", headers=bearer)).text

    assert (before, after, again) == ([401, 401], [200, 200], [200, 200])
    assert fetches == 2  # once per worker: the reload kept the keys
    assert 'strowger_identity_provider_up{issuer="corp"} 1.0' in metrics
    assert bearer["authorization"].split(".")[1] not in str(up.lines) + str(up.access)
