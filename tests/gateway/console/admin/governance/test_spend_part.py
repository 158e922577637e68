"""`/admin/view/spend`: spend over time in a browser."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.console.admin.governance.markup import dollars
from strowger_gateway.gateway.storage.sql.rows import Row
from tests.gateway.console.admin.governance.governed import governed, use
from tests.gateway.console.admin.governance.pages import text_of
from tests.gateway.storage.sql.rows import attempt_row, request_row

pytestmark = pytest.mark.anyio
EVIL = "<script>alert('1')</script>\" onload=\"x"


async def test_spend_is_shown_by_team_over_thirty_days_with_the_budget_of_a_day(
    tmp_path: Path,
) -> None:
    async with governed(tmp_path) as up:
        use(up.store)
        page = (await up.client.get("/admin/view/spend")).text
        report = (await up.client.get("/admin/usage?by=team&days=30")).json()
        csv = unescape(re.findall(r'href="(/admin/usage\?[^"]*)"', page)[0])
        lines = (await up.client.get(csv)).text.splitlines()

    names = re.findall(r'<th scope="row">.*?</span>(?:<a[^>]*>)?([^<]*)<', page)
    most = sorted(report["rows"], key=lambda row: -row["cost_nano_usd"])
    assert names == [row["team"] or "(none)" for row in most]
    text = text_of(page)
    assert f"Spent {dollars(report['total']['cost_nano_usd'])}" in text
    assert f"Requests {report['total']['requests']:,}" in text
    assert "budget search-day $4.00" in text
    assert page.count('class="line budget"') == 2, "in the chart and in its legend"
    assert urlsplit(csv).query.startswith("by=day%2Cteam")
    assert lines[0].startswith("day,team,")
    assert re.search(r'href="/admin/view/requests\?team=search&amp;since=20', page)
    cost = lines[0].split(",").index("cost_usd")
    spent = sum(round(float(line.split(",")[cost]) * 1e9) for line in lines[1:])
    assert spent == report["total"]["cost_nano_usd"]


@pytest.mark.parametrize(
    ("query", "heading", "shown"),
    [
        ("by=key&per=week", "US dollars per week", "By key"),
        ("by=tag&per=month", "US dollars per month", "a request counts under each of its tags"),
        ("by=model&per=day&time_zone=Asia/Kathmandu", "US dollars per day", "By model"),
        ("by=user&per=month", "budget everyone $200.00", "ann@example.org"),
        ("by=provider&per=month", "By provider", "by then last month"),
        ("by=client&per=day", "By client program", "This month so far"),
        ("by=request_tag&per=day", "By tag of the request", "(none)"),
    ],
)
async def test_other_views(query: str, heading: str, shown: str, tmp_path: Path) -> None:
    async with governed(tmp_path) as up:
        use(up.store)
        answer = await up.client.get(f"/admin/view/spend?{query}")

    assert answer.status_code == 200
    assert heading in text_of(answer.text)
    assert shown in text_of(answer.text)


async def test_the_last_period_is_the_current_one_of_the_time_zone(tmp_path: Path) -> None:
    async with governed(tmp_path) as up:
        page = (await up.client.get("/admin/view/spend?per=month&time_zone=Pacific/Apia")).text

    here = datetime.now(UTC) + timedelta(hours=13)
    first, _, last = re.findall(
        r'<div class="x"[^>]*><span>(.*)</span><span>(.*)</span><span>(.*)</span></div>', page
    )[0]
    assert last == f"{here:%Y-%m}"
    assert first == f"{here.year - (here.month < 12)}-{here.month % 12 + 1:02}"
    assert "Nothing was used in this time." in page


async def test_a_wrong_question_is_answered_in_the_page(tmp_path: Path) -> None:
    async with governed(tmp_path) as up:
        zone = await up.client.get("/admin/view/spend", params={"time_zone": EVIL})
        by = await up.client.get("/admin/view/spend?by=colour")

    assert (zone.status_code, by.status_code) == (400, 400)
    assert "Time zone: unknown time zone" in zone.text
    assert "<script>alert" not in zone.text
    assert f'value="{EVIL}"' not in zone.text


async def test_an_address_with_a_wrong_parameter_is_answered_in_the_page(tmp_path: Path) -> None:
    async with governed(tmp_path) as up:
        asked = ("spend?by=planet", "spend?per=eon", "audit?before=x", f"keys?q={'x' * 999}")
        answers = [await up.client.get(f"/admin/view/{one}") for one in asked]
        stranger = await up.client.get(f"/admin/view/{asked[0]}", headers={"authorization": ""})

    for name, answer in zip(("by", "per", "before", "q"), answers, strict=True):
        assert answer.status_code == 400
        assert f"{name.capitalize()}: " in text_of(answer.text)
        assert '<a href="/admin/view/limits">Limits</a>' in answer.text
    assert (stranger.status_code, stranger.headers["location"].partition("?")[0]) == (
        303,
        "/admin/sign-in",
    )


async def test_names_are_text_and_unknown_costs_are_marked(tmp_path: Path) -> None:
    rows, at = list[Row](), datetime.now(UTC).timestamp()
    for number, (team, cost) in enumerate(((EVIL, 1.5), ("unpriced", None), ("mixed", None))):
        rows.append(replace(request_row(f"{number}", time=at), team=team))
        rows.append(attempt_row(f"{number}", time=at, cost=cost))
    rows.append(attempt_row("2", 2, time=at, cost=0.25, role="failed"))
    async with governed(tmp_path) as up:
        up.store.import_rows("f", 0, 1, rows)
        page = (await up.client.get("/admin/view/spend")).text

    assert "<script>alert" not in page
    assert 'onload="' not in page
    assert "unpriced ? " in text_of(page)
    assert "mixed $0.25 + ?" in text_of(page)
    assert "2 attempts of unknown cost" in page


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "$0.00"),
        (1, "< $0.000001"),
        (1_234_000, "$0.0012"),
        (12_340, "$0.000012"),
        (99_990_000, "$0.1000"),
        (1_234_567_890_000, "$1,234.57"),
    ],
)
def test_dollars_for_people(nanos: int, text: str) -> None:
    assert dollars(nanos) == text
