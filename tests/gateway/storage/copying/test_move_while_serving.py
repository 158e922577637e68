"""A company's gateway moves from SQLite to PostgreSQL while it serves, and nothing is lost."""

import asyncio
import json
import signal
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.audit.chain import ChainHead
from strowger_gateway.gateway.audit.verification import ChainCheck
from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.content.stored_responses.archives import counts
from tests.gateway.forked_commands import forked, printed
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
store: {{url: "{url}"{more}}}
auth: {{mode: keys, admin_key: key-of-the-operator}}
server: {{drain_delay_s: 0}}
responses: {{store: on, timeout_s: 60}}
providers: [{{name: a, adapter: openai, base_url: "{remote}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: a, model: x}}, {{provider: a, model: y}}]}}]
experiments:
  - name: trial
    model: chat
    assign_by: header:x-session-id
    primary: thumbs_up
    variants: [{{name: old, backend: a/x, weight: 1}}, {{name: new, backend: a/y, weight: 1}}]
budgets: [{{name: all, who: {{any: true}}, tokens: {tokens}, per: total}}]
"""
OPERATOR = {"authorization": "Bearer key-of-the-operator"}
EACH = 10
"""Tokens of one request, as the provider reports them."""


async def ask(client: httpx.AsyncClient, secret: str, session: str) -> httpx.Response:
    body = {
        "model": "chat",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 3,
    }
    headers = {"authorization": f"Bearer {secret}", "x-session-id": session}
    return await client.post("/v1/chat/completions", json=body, headers=headers)


async def vote(client: httpx.AsyncClient, secret: str, request: str) -> int:
    body = {"request_id": request, "metric": "thumbs_up", "value": True}
    headers = {"authorization": f"Bearer {secret}"}
    return (await client.post("/v1/feedback", json=body, headers=headers)).status_code


async def stop(up: Commanded) -> None:
    up.process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(up.process.wait(), SOON_S)


async def shown(config: Path, *words: str) -> str:
    status, output, errors = await printed(*words, "--config", str(config))
    assert status == 0, errors
    return output


async def tokens(config: Path) -> int:
    """Return what all requests have used, as budgets count it."""
    report = json.loads(await shown(config, "budgets", "--json"))
    return int(report["budgets"][0]["spent"])


def chain(url: str) -> ChainCheck:
    store, check = open_existing(Secret(url)), ChainCheck()
    for row in store.audit.chain():
        if isinstance(row, ChainHead):
            check.finish(row)
        else:
            check.add(row)
    store.close()
    return check


async def test_a_gateway_serves_through_the_move_and_nothing_is_lost(
    tmp_path: Path, postgres: Postgres
) -> None:
    old, new = f"sqlite:///{tmp_path}/strowger.db", postgres.new_database()
    file = tmp_path / "config.yaml"
    copy = ("store", "copy")
    env = {"STROWGER_COPY_FROM": old, "STROWGER_COPY_TO": new}
    asked, refusals = 0, list[int]()
    async with provider(counts) as remote:
        text = CONFIG.format(url=old, more="", remote=remote.base_url, tokens=100_000)
        async with forked(file, text) as up, up.client() as client:
            made = await client.post("/admin/keys", json={"name": "ci"}, headers=OPERATOR)
            secret = str(made.json()["secret"])
            response = await client.post(
                "/v1/responses",
                json={"model": "chat", "input": "hi"},
                headers={"authorization": f"Bearer {secret}"},
            )
            moved = asyncio.Event()
            requests = list[str]()

            async def traffic() -> None:
                nonlocal asked
                while not moved.is_set():
                    answer = await ask(client, secret, f"session-{asked}")
                    refusals.extend([answer.status_code] * (answer.status_code != 200))
                    requests.append(answer.headers["x-gateway-request-id"])
                    asked += 1
                    await asyncio.sleep(0.02)

            async with asyncio.TaskGroup() as group:
                group.create_task(traffic())
                await asyncio.sleep(1)
                votes = [await vote(client, secret, requests[0])]
                first = await printed(*copy, env=env)
                last = await printed(*copy, "--switch", env=env)
                await up.said("buffering", "has moved to PostgreSQL")
                await asyncio.sleep(0.5)
                votes.append(await vote(client, secret, requests[-1]))
                moved.set()
            late = await client.post("/admin/keys", json={"name": "late"}, headers=OPERATOR)
            await stop(up)
        assert list((tmp_path / "strowger-spool").glob("*.rows"))

        text = CONFIG.format(
            url=new, more=f', moved_from: "{old}"', remote=remote.base_url, tokens=100_000
        )
        async with forked(file, text) as up, up.client() as client:
            again = await ask(client, secret, "session-0")
            asked += 1
            headers = {"authorization": f"Bearer {secret}"}
            found = await client.get(f"/v1/responses/{response.json()['id']}", headers=headers)
            async with asyncio.timeout(SOON_S):
                while True:
                    store = open_existing(Secret(new))
                    used = store.usage([(0, 9_000_000_000)])
                    trial = store.request_counts("trial")
                    outcomes = store.outcomes("trial", "thumbs_up")
                    store.close()
                    if sum(one.counts.attempts for one in used) >= asked + 1:
                        break
                    await asyncio.sleep(0.1)
            spent = await tokens(file)
            await stop(up)

    assert (first[0], last[0]) == (0, 0), (first, last)
    assert refusals == []
    assert asked > 20
    assert late.status_code == 503
    assert again.status_code == 200
    assert (response.status_code, found.status_code) == (200, 200)
    assert found.json()["output"] == response.json()["output"]
    assert sum(one.counts.attempts for one in used) == asked + 1
    assert sum(one.requests for one in trial) == asked + 1
    assert votes == [202, 202]
    assert sum(one.count for one in outcomes.cells) == 2
    assert spent == EACH * (asked + 1)
    check = chain(new)
    assert check.problems == []
    assert not list((tmp_path / "strowger-spool").glob("*.rows"))
