"""`--from payloads`: what clients have sent to the gateway is replayed on the API it came from."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.gateway.storage.sql.payload_rows import PayloadQuery
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S
from tests.gateway.experiments.replay.replaying import KEY, PRICED, Served, served
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio
TRIAL = """
  - name: chat
    backends:
      - {provider: v, model: old, weight: 1}
      - {provider: v, model: new, weight: 1}
experiments:
  - name: trial
    model: chat
    primary: thumbs_up
    replay_keys: [replayer]
    variants:
      - {name: control, backend: v/old, weight: 50}
      - {name: treatment, backend: v/new, weight: 50}
logging: {payloads: {mode: all, to: store, redact: [{field: email}]}}
"""
TURN = {"role": "user", "content": "hello"}
SENT = (
    ("/v1/chat/completions", {"messages": [TURN], "user": "ada", "stream": True}),
    ("/v1/chat/completions", {"messages": [TURN], "user": "ada"}),
    ("/v1/messages", {"messages": [TURN], "max_tokens": 50, "system": "Be brief."}),
    ("/v1/responses", {"input": "hello"}),
    ("/v1/chat/completions", {"messages": [{**TURN, "content": "fail"}], "user": "ben"}),
    ("/v1/chat/completions", {"messages": [TURN], "metadata": {"email": "a@b.c"}}),
    ("/v1/chat/completions", {"messages": [TURN], "tools": [
        {"type": "function", "function": {"name": "email", "parameters": {
            "type": "object", "properties": {"email": {"type": "string"}}}}}]}),
)  # fmt: skip


async def behave(request: Received, answer: Answer) -> None:
    if "fail" in request.body.decode():
        await answer.json({"error": {"message": "bad"}}, 400)
    elif request.json["model"] == "judge":
        await answer.chat(json.dumps({"reason": "r", "verdict": "tie"}))
    elif request.json.get("stream"):
        await answer.stream("hi")
    else:
        await answer.chat("hi")


async def send(here: Served) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=here.up.url, headers=headers, timeout=60) as client:
        for path, body in SENT:
            await client.post(path, json={"model": "chat", **body})


async def stored(here: Served, count: int) -> None:
    store = open_existing(Secret(f"sqlite:///{here.folder / 'store.db'}"))
    try:
        async with asyncio.timeout(SOON_S):
            every = PayloadQuery(limit=1000)
            while len(store.payloads.page(every)) < count:  # noqa: ASYNC110  nothing reports it
                await asyncio.sleep(0.1)
    finally:
        store.close()


async def test_logged_requests_are_replayed_and_the_rest_is_counted(tmp_path: Path) -> None:
    async with served(tmp_path, behave, TRIAL + PRICED) as here:
        await send(here)
        await stored(here, len(SENT))
        before = len(here.vendor.requests)
        words = (
            "--from", "payloads", "--judge", "judge", "--max-usd", "20",
            "--answer-tokens", "100", "--judge-tokens", "100",
        )  # fmt: skip
        found = await here.run("replay", "trial", *words)
        asked = [one.json for one in here.vendor.requests[before:]]
        await stored(here, len(SENT) + len(asked))
        again = await here.run("replay", "trial", *words, "--run", "second")
        none = await here.run("replay", "trial", *words, "--run", "third", "--until", "1d")
        report = await here.run("replay-report", "trial", "--json")

    assert found.exit_code == 0, found.output
    assert "1 (the request failed)" in found.output
    assert "1 (redaction has changed it)" in found.output
    assert "1 (the same prompt of the same unit again)" in found.output
    arms = [one for one in asked if one["model"] != "judge"]
    assert len(arms) == 8
    assert not any(one.get("stream") for one in arms)
    assert not any("user" in one or "metadata" in one for one in arms)
    assert [one["model"] for one in arms].count("old") == 4
    assert json.loads(report.output)["win_rate"]["ties"] == 4
    assert again.exit_code == 0, again.output
    assert "8 (a request of a replay)" in again.output
    assert "second: 4 prompts" in again.output
    assert (
        "--from payloads: has no prompt to replay; the store has no payload of chat" in none.output
    )
