"""GET /admin/series: traffic of the last minutes by model and backend."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

KEY = {"authorization": "Bearer key-of-the-operator"}
ASK = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


@asynccontextmanager
async def operators(run_dir: Path) -> AsyncGenerator[httpx.AsyncClient]:
    config = "auth: {admin_key: key-of-the-operator}"
    async with provider() as remote, serving(one_model(remote.base_url, config), run_dir) as up:
        async with httpx.AsyncClient(base_url=up.url, headers=KEY, timeout=60) as client:
            yield client


async def test_a_request_is_in_the_series_as_soon_as_it_is_answered(tmp_path: Path) -> None:
    async with operators(tmp_path) as client:
        await client.post("/v1/chat/completions", json=ASK)
        await client.post("/v1/chat/completions", json={**ASK, "stream": True})
        await client.post("/v1/chat/completions", json={**ASK, "model": "nobody"})

        answer = (await client.get("/admin/series?window=15m")).json()

    nobody, chat = answer["series"]
    assert (nobody["model"], nobody["backend"]) == ("", "")
    assert (chat["model"], chat["backend"]) == ("chat", "remote/m-1")
    assert sum(point["client_errors"] for point in nobody["points"]) == 1
    assert sum(point["requests"] for point in chat["points"]) == 2
    assert sum(point["time_to_first_token"]["count"] for point in chat["points"]) >= 1
    assert chat["points"][-1]["latency"]["p99_ms"] > 0
    assert answer["begin"] < time.time() <= answer["end"] + 1
    assert answer["end"] - answer["begin"] == 60 * answer["step_s"] == 900


async def test_what_a_limit_or_a_budget_refuses_is_no_error_on_the_page(tmp_path: Path) -> None:
    more = """
auth: {admin_key: key-of-the-operator}
limits: [{name: all, who: {any: true}, requests: 1, per: day}]
"""
    async with provider() as remote, serving(one_model(remote.base_url, more), tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, headers=KEY, timeout=60) as client:
            statuses = [
                (await client.post("/v1/chat/completions", json=ASK)).status_code for _ in range(5)
            ]
            series = (await client.get("/admin/series")).json()["series"]
            page = (await client.get("/admin/live")).text

    points = [point for one in series for point in one["points"]]
    assert statuses == [200, 429, 429, 429, 429]
    assert sum(point["errors"] for point in points) == 0
    assert sum(point["refused"] for point in points) == 4
    assert "0 of backends</a>, <a" in page
    assert "4 refused</a>" in page


async def test_a_window_that_is_not_kept_is_refused(tmp_path: Path) -> None:
    async with operators(tmp_path) as client:
        answer = await client.get("/admin/series?window=2d")

    assert answer.status_code == 400
    assert answer.json()["error"] == {
        "message": "window: Invalid enum value '2d'; see GET /openapi.json for what is accepted",
        "type": "invalid_request_error",
        "param": "window",
        "code": "invalid_request",
    }
