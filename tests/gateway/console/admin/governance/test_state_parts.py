"""`/admin/view/budgets` and `/admin/view/limits`: what is used of them now."""

import asyncio
import re
from pathlib import Path
from time import monotonic_ns

import httpx
import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.console.admin.governance.budgets import budgets_section
from strowger_gateway.gateway.console.admin.governance.limits import limits_section
from strowger_gateway.gateway.console.admin.governance.measured import LimitState
from strowger_gateway.gateway.governance.budgets.report import BudgetOverview, BudgetStanding
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.limits.metrics import MOST_ACCOUNTS, LimitUseCollector
from tests.gateway.config.configs import read
from tests.gateway.console.admin.governance.governed import Governed, governed, use
from tests.gateway.console.admin.governance.pages import text_of
from tests.gateway.serving import one_model

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("within_one_period")]
EVIL = "<script>alert('1')</script>\" onload=\"x"
HOUR, SOON_S = 3600.0, 30.0
STATE = BudgetStanding(
    budget="b",
    subject="",
    unit="usd",
    per="day",
    limit=10.0,
    spent=4.0,
    reserved=1.5,
    left=4.5,
    share=0.4,
    begins=0.0,
    resets=24 * HOUR,
    rate_per_hour=0.33,
    forecast=8.0,
    used_up_at=None,
    alerts=(),
)
NONE_OF_A_KEY = """
auth: {mode: keys, admin_key: key-of-the-operator, keys: [{name: a, key: key-of-a}]}
"""


async def page_until(up: Governed, path: str, wanted: str) -> str:
    """Read a page until it has the text: the store is read about once per second."""
    async with asyncio.timeout(SOON_S):
        while True:
            text = text_of((await up.client.get(path)).text)
            if wanted in text:
                return text
            await asyncio.sleep(0.05)


async def test_budgets_show_what_the_records_add_up_to(tmp_path: Path) -> None:
    async with governed(tmp_path) as up:
        use(up.store, days=1)
        spent = (await up.client.get("/admin/usage?by=&days=30")).json()["total"]["cost_usd"]
        text = await page_until(up, "/admin/view/budgets", f"${float(spent):,.2f}")

    assert re.search(r"search-day \d.* % \$\d.*\$4\.00 / day", text)
    assert "$200.00 / month" in text


async def test_limits_show_what_is_used_and_what_was_refused(tmp_path: Path) -> None:
    async with governed(tmp_path) as up:
        before = text_of((await up.client.get("/admin/view/limits")).text)
        secret = up.issue("crawler")
        headers = {"authorization": f"Bearer {secret}"}
        body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        async with httpx.AsyncClient(base_url=up.up.url, headers=headers, timeout=60) as client:
            answers = [await client.post("/v1/chat/completions", json=body) for _ in range(61)]
        after = text_of((await up.client.get("/admin/view/limits")).text)
        metrics = (await up.client.get("/metrics")).text

    assert "everyone not in use per-key not in use" in before
    assert answers[-1].status_code == 429
    assert "everyone 6 % requests per minute 60 1,000 –" in after
    assert "per-key crawler 100 % requests per minute 60 60 1" in after
    place = 'limit="per-key",subject="crawler"'
    assert f"strowger_limit_used_requests{{{place}}} 60.0" in metrics
    assert f"strowger_limit_allowed_requests{{{place}}} 60.0" in metrics


async def test_a_gateway_without_budgets_and_limits_says_how_to_have_some(tmp_path: Path) -> None:
    config = one_model("http://127.0.0.1:9/v1", NONE_OF_A_KEY)
    async with governed(tmp_path, config) as up:
        budgets = (await up.client.get("/admin/view/budgets")).text
        limits = (await up.client.get("/admin/view/limits")).text

    assert "There are no budgets." in budgets
    assert "There are no limits." in limits


def shown(state: BudgetStanding, at: float = 12 * HOUR, omitted: int = 0) -> str:
    hidden = {state.budget: omitted} if omitted else {}
    return budgets_section(BudgetOverview(at=at, budgets=(state,), omitted=hidden))


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (STATE, "b 55 % $4.00 $1.50 $4.50 $10.00 / day $8.00 in 12 h 0 min"),
        (replace(STATE, forecast=None), "$10.00 / day – in 12 h 0 min"),
        (replace(STATE, spent=12.0, left=0.0), "135 % $12.00 $1.50 $0.00"),
        (replace(STATE, per="total", resets=None, forecast=None), "$10.00 in total – never"),
        (
            replace(STATE, unit="tokens", limit=2000.0, spent=1000.0, reserved=0.0, left=1000.0),
            "50 % 1,000 tokens 0 tokens 1,000 tokens 2,000 tokens / day 8 tokens",
        ),
    ],
)
def test_a_budget(state: BudgetStanding, text: str) -> None:
    assert text in text_of(shown(state))


def test_a_forecast_beyond_the_budget_is_marked_and_hidden_subjects_are_counted() -> None:
    beyond = replace(STATE, forecast=16.0, used_up_at=17.5 * HOUR)
    assert 'class="state warn">$16.00, used up <time' in shown(beyond)
    assert "$16.00, used up in 5 h 30 min" in text_of(shown(beyond))
    assert "$16.00, used up" in text_of(shown(replace(beyond, used_up_at=12 * HOUR)))
    assert "state warn" not in shown(STATE)
    assert "1,234 more subjects" in shown(STATE, omitted=1234)
    assert "more subjects" not in shown(STATE)


def test_names_are_text() -> None:
    limit = LimitState(
        name=EVIL, subject=EVIL, quantity="tokens", per="day", allowed=5.0, used=5.0, refused=2.0
    )
    pages = shown(replace(STATE, budget=EVIL, subject=EVIL))
    pages += limits_section([limit], [EVIL])

    assert "<script" not in pages
    assert 'onload="' not in pages
    assert pages.count("&lt;script&gt;") >= 5


def test_metrics_of_use_have_the_fullest_accounts_and_no_more_than_a_thousand() -> None:
    text = one_model(
        "http://127.0.0.1:9/v1",
        "auth: {mode: keys, keys: [{name: a, key: key-of-a-client}]}\n"
        "limits: [{name: l, who: {any: true}, each: key, requests: 10}]",
    )
    limits = RequestLimits(read(text).limits)
    for number in range(MOST_ACCOUNTS + 5):
        accounts = limits.of((f"k{number}", "chat", "chat", "", "", "", ""))
        assert accounts is not None
        for _ in range(1 + (number < 3)):
            assert accounts.reserve(0, monotonic_ns()) is not None

    _, used, *_ = LimitUseCollector(limits.accounts).collect()

    assert len(used.samples) == MOST_ACCOUNTS
    assert {sample.labels["subject"] for sample in used.samples[:3]} == {"k0", "k1", "k2"}
