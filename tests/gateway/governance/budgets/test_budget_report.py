"""`GET /admin/budgets` and `strowger budgets`: what each budget has spent, reserved and left."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from strowger_gateway.gateway.storage.sql.spend_rows import Holding
from tests.gateway.cli.command_line import run
from tests.gateway.experiments.recorded_gateway import BEARER, recorded
from tests.gateway.governance.limits.test_limited_requests import HELLO
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers: [{{name: a, adapter: openai, base_url: {url}, api_key: k}}]
prices: [{{match: a/*, input: 1, output: 10}}]
models: [{{name: chat, backends: [{{provider: a, model: good}}]}}]
budgets:
  - {{name: blue-month, who: {{team: blue}}, usd: 0.01, per: month}}
  - {{name: per-key, who: {{any: true}}, each: key, tokens: 1_000, per: day}}
  - {{name: everything, who: {{any: true}}, usd: 50, per: total}}
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys:
    - {{name: web, key: key-of-the-web-0, team: blue}}
    - {{name: ann, key: key-of-ann-0000}}
teams: [{{name: blue}}]
"""
STORE = "store: {url: 'sqlite:///strowger.db'}\n"
NANOS, TOKENS = 7 * 1_000 + 3 * 10_000, 10
"""Of one answer."""


async def test_the_endpoint_and_the_command_show_what_is_spent_and_held(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        recorded(CONFIG.format(url=remote.base_url), tmp_path) as up,
        httpx.AsyncClient(base_url=up.running.url, timeout=60) as client,
    ):
        for key in ("key-of-the-web-0", "key-of-the-web-0", "key-of-ann-0000"):
            answer = await client.post(
                "/v1/chat/completions",
                headers={"authorization": f"Bearer {key}"},
                json={**HELLO, "max_tokens": 20},
            )
            assert answer.status_code == 200, answer.text
        up.settle()
        wanted = Holding(
            budget="per-key", subject="web", amount=7, least=0, free=900, counts=lambda _: 0
        )
        up.store.spend.hold("another gateway", 1, up.store.spend.read(-1, [], "").version, [wanted])

        answer = await client.get("/admin/budgets", headers=BEARER)
        closed = await client.get("/admin/budgets")
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(url=remote.base_url) + STORE)
        printed = json.loads(run("budgets", "--config", str(config), "--json").output)
        table = run("budgets", "--config", str(config)).output

    assert closed.status_code == 401
    assert answer.headers["cache-control"] == "no-store"
    states: list[dict[str, Any]] = answer.json()["budgets"]
    month, web, ann, total = states
    assert [(one["budget"], one["subject"], one["unit"]) for one in states] == [
        ("blue-month", "", "usd"),
        ("per-key", "web", "tokens"),
        ("per-key", "ann", "tokens"),
        ("everything", "", "usd"),
    ]
    assert month["spent"] == pytest.approx(2 * NANOS / 1e9, abs=1e-12)
    assert month["limit"] == 0.01
    assert month["left"] == pytest.approx(0.01 - 2 * NANOS / 1e9, abs=1e-12)
    assert month["share"] == pytest.approx(2 * NANOS / 1e7, abs=1e-9)
    now = datetime.now(UTC)
    assert month["begins"] == datetime(now.year, now.month, 1, tzinfo=UTC).timestamp()
    assert (web["spent"], web["reserved"], web["left"]) == (2 * TOKENS, 7, 1_000 - 2 * TOKENS - 7)
    assert (ann["spent"], ann["reserved"]) == (TOKENS, 0)
    assert (total["begins"], total["resets"], total["forecast"]) == (None, None, None)
    assert total["spent"] == pytest.approx(3 * NANOS / 1e9, abs=1e-12)
    for one, other in zip(states, printed["budgets"], strict=True):
        later = {"forecast": 0, "rate_per_hour": 0, "used_up_at": 0}
        assert {**one, **later} == {**other, **later}
    assert "blue-month" in table
    assert "20 tokens" in table
    assert "never" in table


def test_the_command_names_what_is_missing(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "providers: [{name: a, adapter: openai, base_url: 'https://a.example/v1', api_key: k}]\n"
        "models: [{name: chat, backends: [{provider: a, model: m}]}]\n"
    )

    assert "has no budgets" in run("budgets", "--config", str(config)).output
