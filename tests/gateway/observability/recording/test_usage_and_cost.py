"""Usage and cost in the metrics equal those in the store."""

import asyncio
import re
from collections import defaultdict
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from tests.gateway.experiments.recorded_gateway import Recorded, recorded
from tests.gateway.storage.sql.used import used
from tests.stand_ins.provider import Answer, Received, chat_body, provider

pytestmark = pytest.mark.anyio

MODELS = """
providers: [{{name: a, adapter: openai, base_url: {url}, api_key: k}}]
prices: [{{match: a/*, input: 1, output: 10}}, {{match: a/dear, input: 100, output: 1000}}]
models:
  - name: chat
    policy: in_order
    retry: {{backoff_s: 0}}
    backends: [{{provider: a, model: good}}]
    mirror: {{backend: a/dear, share: 1}}
  - name: second
    policy: in_order
    retry: {{backoff_s: 0, attempts: 2}}
    backends: [{{provider: a, model: gives-up}}, {{provider: a, model: good}}]
  - name: late
    policy: in_order
    hedge_after_s: 0.05
    backends: [{{provider: a, model: slow}}, {{provider: a, model: good}}]
  - name: "open-*"
    policy: in_order
    backends: [{{provider: a, model: gives-up}}, {{provider: a, model: "*"}}]
"""
METRIC = re.compile(r"^strowger_(cost_usd|tokens)_total\{(.*)\} (\S+)$", re.MULTILINE)


async def behave(request: Received, answer: Answer) -> None:
    """A stream breaks in the middle."""
    if request.json["model"] == "slow":
        await asyncio.sleep(5)
    if request.json["model"] == "gives-up":
        await answer.json(chat_body(finish="error"))
    elif request.json.get("stream"):
        await answer.begin_stream()
        await answer.text("one ")
        await answer.text("two ")
        answer.close()
    else:
        await answer.json(chat_body())


async def ask(up: Recorded, model: str, *, stream: bool = False) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{up.running.url}/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text


async def test_the_metrics_and_the_store_agree_on_what_was_spent(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(MODELS.format(url=remote.base_url), tmp_path) as up:
            await ask(up, "chat")
            await ask(up, "second")
            await ask(up, "open-x")
            await ask(up, "late")
            await ask(up, "chat", stream=True)
            await up.running.state.side(MirrorsSide).copies.wait_idle()
            up.settle()
            text = (await up.running.state.processes.metrics_text())[0].decode()
            rows = used(up.store)

    spent: defaultdict[str, float] = defaultdict(float)
    for name, labels, value in METRIC.findall(text):
        of = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        spent[f"{name} {of['role']} {of.get('kind', '')}".strip()] += float(value)
    for name, counted in (
        ("cost_usd", sum(row.cost_nano_usd for row in rows) / 1e9),
        ("tokens", sum(row.prompt_tokens + row.completion_tokens for row in rows)),
    ):
        assert sum(spent[key] for key in spent if key.startswith(name)) == pytest.approx(counted)
    assert spent["cost_usd served"] == pytest.approx(sum(row.served_nano_usd for row in rows) / 1e9)
    assert spent["tokens served prompt"] == sum(row.served_prompt_tokens for row in rows) == 28
    given_up = sum(one.json["model"] == "gives-up" for one in remote.requests)
    broken = spent["cost_usd failed"] - given_up * (7 + 3 * 10) / 1e6
    assert 2 * 10 / 1e6 < broken < 50 / 1e6, "two words of a broken stream, and its prompt"
    assert spent["tokens failed completion"] == given_up * 3 + 2, (
        "a failed answer reports its usage"
    )
    assert spent["cost_usd hedge"] == pytest.approx(7 / 1e6), "the prompt that the slow one had"
    assert 'strowger_cost_usd_total{backend="a/*",model="open-*",role="served"}' in text
    assert "open-x" not in text
    assert spent["cost_usd mirror"] == pytest.approx((700 + 3000) / 1e6)
