"""Ten minutes of a real outage before two workers, under three kinds of traffic at once."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from tests.gateway.commanded import SOON_S, Commanded, commanded
from tests.gateway.routing.backend_events.prometheus import Alert
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

OUTAGE_S = float(os.environ.get("OUTAGE_S", "600"))
SCRAPE_S = 5.0
EVERY_S = {"busy": 1.0, "rare": OUTAGE_S / 10, "idle": 0.0}
"""Seconds between two requests; `idle` gets four at the beginning of the outage, and none after."""

KEY = "key-of-the-operator"
OPERATOR = {"authorization": f"Bearer {KEY}"}
CONFIG = """
auth: {{admin_key: key-of-the-operator}}
server: {{workers: 2}}
providers:
  - {{name: p, adapter: openai, base_url: "{url}", api_key: k}}
  - {{name: checked, adapter: openai, base_url: "{url}", api_key: k,
      health_check: {{request: smallest, every_s: 2, timeout_s: 1}}}}
models:
  - {{name: busy, retry: {{attempts: 1}}, backends: [{{provider: p, model: busy}}]}}
  - {{name: rare, retry: {{attempts: 1}}, backends: [{{provider: p, model: rare}}]}}
  - {{name: idle, retry: {{attempts: 1}}, backends: [{{provider: p, model: idle}}]}}
  - {{name: checked, retry: {{attempts: 1}}, backends: [{{provider: checked, model: c}}]}}
"""


class Vendor:
    down = False

    async def __call__(self, request: Received, answer: Answer) -> None:
        if self.down:
            await answer.json({"error": {"message": "down"}}, 500)
        else:
            await answers(request, answer)


class Seen(Struct, kw_only=True):
    """One scrape. gauges: by model. firing: the models of StrowgerModelDown."""

    at: float
    gauges: dict[str, float]
    firing: set[str]


async def ask(up: Commanded, model: str) -> None:
    """Over a connection of its own, so that any worker may get it."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(base_url=up.url, timeout=60) as client:
        await client.post("/v1/chat/completions", json=body)


async def keep_asking(up: Commanded, model: str) -> None:
    while True:
        await ask(up, model)
        await asyncio.sleep(EVERY_S[model])


async def scrapes(up: Commanded, seconds: float) -> AsyncGenerator[Seen]:
    """Scrape any worker until so many seconds have passed."""
    alert, ends = Alert("StrowgerModelDown"), time.monotonic() + seconds
    while time.monotonic() < ends:
        async with httpx.AsyncClient(base_url=up.url, headers=OPERATOR, timeout=60) as client:
            metrics = (await client.get("/metrics")).text
        at = time.monotonic()
        alert.scrape(metrics, at)
        gauges = {
            line.partition('model="')[2].partition('"')[0]: float(line.split()[-1])
            for line in metrics.splitlines()
            if line.startswith("strowger_backend_available{")
        }
        firing = {value for labels in alert.firing for name, value in labels if name == "model"}
        yield Seen(at=at, gauges=gauges, firing=firing)
        await asyncio.sleep(SCRAPE_S)


async def test_ten_minutes_of_an_outage_are_ten_minutes_everywhere(tmp_path: Path) -> None:
    vendor = Vendor()
    async with provider(vendor) as remote:
        config = CONFIG.format(url=remote.base_url)
        async with commanded(tmp_path / "config.yaml", config) as up:
            for model in EVERY_S:
                await ask(up, model)
            vendor.down = True
            began = time.monotonic()
            for _ in range(4):
                await ask(up, "idle")
            asking = [asyncio.create_task(keep_asking(up, name)) for name in ("busy", "rare")]
            outage = [seen async for seen in scrapes(up, OUTAGE_S)]
            vendor.down = False
            lasted = time.monotonic() - began
            after = [seen async for seen in scrapes(up, EVERY_S["rare"] + 15.0)]
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            last_idle = after[-1].gauges["idle"]
            await ask(up, "idle")
            await up.said("idle: has a backend that works", since=0)
            async with httpx.AsyncClient(base_url=up.url, headers=OPERATOR, timeout=60) as client:
                events = (await client.get("/admin/events")).json()["events"]
            lines = [line for line in up.lines if "rare: p/rare" in line]

    known = {"busy": 5.0, "idle": 1.0, "checked": 10.0, "rare": 2 * EVERY_S["rare"] + 5.0}
    for model, within_s in known.items():
        late = [seen for seen in outage if seen.at - began > within_s + SCRAPE_S]
        assert late
        assert {seen.gauges[model] for seen in late} == {0.0}, model
        told = [seen for seen in late if seen.at - began > within_s + 2 * SCRAPE_S + 60.0]
        assert all(model in seen.firing for seen in told), model
    assert {model: after[-1].gauges[model] for model in ("busy", "rare", "checked")} == {
        "busy": 1.0,
        "rare": 1.0,
        "checked": 1.0,
    }
    assert last_idle == 0.0, "nothing has succeeded there"
    ended = {
        one["model"]: one["duration_s"]
        for one in events
        if one["kind"] in ("recovered", "circuit_closed")
    }
    assert set(ended) == {"busy", "rare", "idle", "checked"}
    assert ended["busy"] == pytest.approx(lasted, abs=SOON_S / 4)
    assert len(lines) == 2, lines
