"""Spend caps of providers, over gateways: whose cap is used up is not asked, and others serve."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.governance.spend_caps.leader_side import LOOK_S
from tests.gateway.cli.command_line import run
from tests.gateway.commanded import OPERATOR, SOON_S, Commanded, connected
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
store: {{url: "sqlite:///{folder}/store.db", spool: {folder}/{name}}}
auth: {{mode: none, admin_key: key-of-the-operator}}
server: {{drain_delay_s: 0}}
providers:
  - {{name: p, adapter: openai, base_url: "{p}", api_key: k, spend_caps: [{cap}]}}
  - {{name: q, adapter: openai, base_url: "{q}", api_key: k}}
models:
  - {{name: chat, policy: in_order,
     backends: [{{provider: p, model: m}}, {{provider: q, model: n}}]}}
  - {{name: solo, backends: [{{provider: p, model: m}}]}}
  - {{name: small, backends: [{{provider: p, model: tiny}}]}}
  - name: any-*
    policy: in_order
    backends: [{{provider: p, model: "*"}}, {{provider: q, model: "*"}}]
prices: [{{match: p/*, input: 1000, output: 10000}}, {{match: q/n, input: 1, output: 1}}]
"""
CAP = "{usd: 0.05, per: day, models: [m, any-dear*]}"
"""An answer costs 0.037."""


class Vendor:
    """Says its name. asked: how often for the model `m`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: int = 0

    async def __call__(self, request: Received, answer: Answer) -> None:
        self.asked += int(request.json["model"] == "m")
        await answer.chat(self.name)


class Up(Struct, frozen=True, kw_only=True):
    """Two gateways that share a store, of which the first has two workers."""

    first: Commanded
    second: Commanded
    clients: tuple[httpx.AsyncClient, ...]
    text: Callable[[str, str], str]
    vendor: Vendor


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Up]:
    folder = tmp_path_factory.mktemp("capped")
    vendor = Vendor("p")
    async with provider(vendor) as p, provider(Vendor("q")) as q, AsyncExitStack() as stack:

        def text(name: str, cap: str) -> str:
            return CONFIG.format(folder=folder, name=name, p=p.base_url, q=q.base_url, cap=cap)

        first = await stack.enter_async_context(
            forked(folder / "one.yaml", text("one", CAP), "--workers", "2")
        )
        second = await stack.enter_async_context(forked(folder / "two.yaml", text("two", CAP)))
        workers = [await connected(first, stack, worker) for worker in (0, 1)]
        other = await stack.enter_async_context(
            httpx.AsyncClient(base_url=second.url, timeout=SOON_S)
        )
        yield Up(first=first, second=second, clients=(*workers, other), text=text, vendor=vendor)


async def ask(client: httpx.AsyncClient, model: str) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return await client.post("/v1/chat/completions", json=body)


async def said(client: httpx.AsyncClient, model: str = "chat") -> str:
    answer = await ask(client, model)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


async def serves(client: httpx.AsyncClient, wanted: str) -> None:
    """Wait until this client's process sends requests there; no request fails meanwhile."""
    async with asyncio.timeout(SOON_S):
        while await said(client) != wanted:  # noqa: ASYNC110  nothing reports it
            await asyncio.sleep(0.05)


async def test_once_a_cap_is_used_up_others_serve_in_all_gateways_and_no_request_is_lost(
    up: Up, tmp_path: Path
) -> None:
    worker, sibling, other = up.clients
    assert await said(worker) == "p"
    for client in (worker, sibling, other):
        await serves(client, "q")

    refused = await ask(other, "solo")
    assert refused.status_code == 503
    message = refused.json()["error"]["message"]
    assert "p/m: over_budget since " in message
    assert "the spend cap of $0.05 per day is used up; until 2" in message
    assert 0 < int(refused.headers["retry-after"]) <= 90_000
    assert await said(other, "small") == "p", "a cap of one model leaves others alone"
    assert await said(other, "any-dear-1") == "q", "names that a wildcard passes on are held"
    assert await said(other, "any-other") == "p"

    for client in up.clients:
        (cap,) = (await client.get("/admin/spend-caps", headers=OPERATOR)).json()["caps"]
        assert (cap["provider"], cap["models"], cap["used_up"]) == ("p", ["m", "any-dear*"], True)
        assert cap["spent"] >= 0.05
        assert cap["resets"]
    page = (await other.get("/admin/view/spend-caps", headers=OPERATOR)).text
    assert "used up, other backends serve" in page
    metrics = (await other.get("/metrics", headers=OPERATOR)).text
    assert 'strowger_spend_cap_usd{models="m, any-dear*",per="day",provider="p"} 0.05' in metrics
    assert 'state="over_budget"' in metrics
    assert await up.first.said("p/m: over budget, other backends serve")
    events = (await other.get("/admin/events?limit=50", headers=OPERATOR)).text
    assert "over_budget" in events

    async with asyncio.timeout(SOON_S):
        while True:  # the command reads what is imported
            shown = run("spend-caps", "--config", str(up.second.config), "--json")
            (cap,) = json.loads(shown.stdout)
            if cap["spent"] >= 0.0369 * up.vendor.asked:
                break
            await asyncio.sleep(0.2)
    await asyncio.sleep(1.5 * LOOK_S)
    for client in up.clients:
        (cap,) = (await client.get("/admin/spend-caps", headers=OPERATOR)).json()["caps"]
        assert cap["spent"] == pytest.approx(0.037 * up.vendor.asked), "imported costs count once"
    assert "used up" in run("spend-caps", "--config", str(up.second.config)).stdout


async def test_a_higher_cap_takes_effect_with_a_reload_and_without_one_nothing_is_held(
    up: Up,
) -> None:
    other = up.clients[2]
    await up.second.reload(up.text("two", "{usd: 50, per: day}"))
    await serves(other, "p")
    assert await up.second.said("p/m: within its spend caps again")
    await up.second.reload(up.text("two", ""))

    assert (await other.get("/admin/spend-caps", headers=OPERATOR)).json()["caps"] is not None
    assert await said(other) == "p"
