"""/admin/requests and `strowger requests` over two gateways: what failed, why, at what cost."""

import asyncio
import csv
import io
import json
import os
import select
import signal
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.governance.usage.csv_output import harmless
from tests.gateway.cli.command_line import table
from tests.gateway.commanded import SOON_S
from tests.gateway.console.admin.browser import browsing, chromium
from tests.gateway.console.admin.request_log.two_gateways import (
    ADMIN,
    BEARER,
    KEYS,
    Two,
    admin,
    listed,
    recorded,
    two_gateways,
)
from tests.gateway.forked_commands import fork_into, printed
from tests.stand_ins.postgres import Postgres

pytestmark = pytest.mark.anyio


class Sent(Struct, frozen=True, kw_only=True):
    """ids: of the requests by what they are. since: before the first of them, Unix seconds."""

    up: Two
    ids: dict[str, str]
    since: float


@pytest.fixture(scope="module")
async def sent(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Sent]:
    async with two_gateways(postgres, tmp_path_factory.mktemp("two")) as up:
        since = time.time()
        answers = {
            "red fell back": await up.ask(up.one, "red", "talk"),
            "red failed": await up.ask(up.one, "red", "broken", **{"x-request-id": "mine"}),
            "red asked wrongly": await up.ask(up.one, "red", "no-such-model"),
            "blue failed": await up.ask(up.two, "blue", "broken"),
            "blue was answered": await up.ask(up.two, "blue"),
        }
        ids = {name: one.headers["x-gateway-request-id"] for name, one in answers.items()}
        await recorded(up.one, ids)
        await recorded(up.two, ids)
        yield Sent(up=up, ids=ids, since=since)


async def found(sent: Sent, **query: str) -> list[str]:
    """Return the names of what the second gateway lists, which got other requests."""
    names = {request_id: name for name, request_id in sent.ids.items()}
    return [names[one["request_id"]] for one in (await listed(sent.up.two, **query))["requests"]]


async def test_one_call_tells_which_requests_of_a_team_failed_why_and_at_what_cost(
    sent: Sent,
) -> None:
    answer = await listed(
        sent.up.two, team="red", status="failed", since=str(sent.since), totals="true"
    )

    wrong, failed = answer["requests"]
    assert [wrong["request_id"], failed["request_id"]] == [
        sent.ids["red asked wrongly"],
        sent.ids["red failed"],
    ]
    assert (failed["status"], failed["error"]) == (502, "upstream_failed")
    assert "out of order" in failed["message"]
    assert [(one["backend"], one["outcome"]) for one in failed["attempts"]] == [
        ("p/bad", "upstream_failed")
    ]
    assert wrong["error"] == "model_not_found"
    totals = answer["totals"]
    assert (totals["requests"], totals["failed"], totals["errors"]) == (2, 2, 1)
    assert (totals["cost_usd"], totals["since"]) == (0.0, None)
    assert answer["next"] == ""


async def test_each_gateway_lists_the_requests_of_the_other(sent: Sent) -> None:
    everything = [one["request_id"] for one in (await listed(sent.up.one))["requests"]]

    assert set(everything) == set(sent.ids.values())
    assert everything == [one["request_id"] for one in (await listed(sent.up.two))["requests"]]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"model": "talk"}, ["red fell back"]),
        ({"model": "chat"}, ["blue was answered", "red fell back"]),
        ({"model": "no-such-model"}, ["red asked wrongly"]),
        ({"backend": "p/flaky"}, ["blue was answered", "red fell back"]),
        ({"backend": "p/good", "team": "blue"}, ["blue was answered"]),
        ({"key": "blue-app", "status": "502"}, ["blue failed"]),
        ({"status": "client_error"}, ["red asked wrongly"]),
        ({"status": "refused"}, []),
        ({"status": "error"}, ["blue failed", "red failed"]),
        ({"status": "4xx"}, ["red asked wrongly"]),
        ({"error": "upstream_failed", "key": "red-app"}, ["red failed"]),
        ({"id": "mine"}, ["red failed"]),
        ({"stream": "true"}, []),
        ({"surface": "anthropic"}, []),
        ({"since": "15m", "until": "0s", "status": "ok"}, ["blue was answered", "red fell back"]),
        ({"until": "1h"}, []),
        ({"payload": "true", "team": "red"}, ["red asked wrongly", "red failed"]),
    ],
)
async def test_it_filters(query: dict[str, str], names: list[str], sent: Sent) -> None:
    if "payload" in query:  # stored by another thread
        async with asyncio.timeout(SOON_S):
            while await found(sent, **query) != names:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    assert await found(sent, **query) == names


async def test_pages_follow_each_other(sent: Sent) -> None:
    ids, after = list[str](), ""
    while True:
        page = await listed(sent.up.two, limit="2", after=after)
        ids += [one["request_id"] for one in page["requests"]]
        after = page["next"]
        if not after:
            break

    assert ids == [one["request_id"] for one in (await listed(sent.up.two))["requests"]]


async def test_a_request_has_the_cost_of_all_attempts_and_its_payload(sent: Sent) -> None:
    fell_back = (await admin(sent.up.two, f"/requests/{sent.ids['red fell back']}")).json()
    failed = (await admin(sent.up.two, "/requests/mine")).json()

    assert fell_back["total_cost_usd"] == fell_back["cost_usd"] == 10.0
    assert [one["outcome"] for one in fell_back["attempts"]] == ["upstream_failed", "ok"]
    assert (failed["request_id"], failed["source"]) == (sent.ids["red failed"], "store")
    assert failed["payload"] == f"/admin/payloads/{sent.ids['red failed']}"
    assert (await admin(sent.up.one, failed["payload"].removeprefix("/admin"))).status_code == 200
    assert fell_back["payload"] == ""


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"since": "yesterday"}, "since: 'yesterday' is not a time; give Unix seconds"),
        ({"until": "nan"}, "until: 'nan' is not a time"),
        ({"status": "bad"}, "status: 'bad' is unknown; give failed"),
        ({"stream": "maybe"}, "stream: 'maybe' is not a flag; give true or false"),
        ({"after": "here"}, "after: 'here' is not a place in the list"),
        ({"limit": "0"}, "limit: "),
        ({"modle": "x"}, "modle: unknown query parameter; known: since"),
        ({"team": "x" * 600}, "team: "),
    ],
)
async def test_a_wrong_parameter_is_named(query: dict[str, str], words: str, sent: Sent) -> None:
    answer = await admin(sent.up.one, "/requests", **query)

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(words)


async def test_an_export_has_all_that_match(sent: Sent) -> None:
    lines = await admin(sent.up.two, "/requests/export", team="red")
    table = await admin(sent.up.two, "/requests/export", format="csv", status="failed")
    newest = await admin(sent.up.two, "/requests/export", limit="1")

    rows = [json.loads(line) for line in lines.text.splitlines()]
    assert [one["request_id"] for one in rows] == [
        sent.ids[name] for name in ("red asked wrongly", "red failed", "red fell back")
    ]
    assert lines.headers["content-type"] == "application/jsonl"
    cells = list(csv.DictReader(io.StringIO(table.text)))
    assert [one["request_id"] for one in cells] == [
        sent.ids[name] for name in ("blue failed", "red asked wrongly", "red failed")
    ]
    assert cells[0]["attempts"] == "p/bad:upstream_failed"
    assert "requests.csv" in table.headers["content-disposition"]
    assert len(newest.text.splitlines()) == 1


async def followed(response: httpx.Response) -> AsyncGenerator[tuple[str, str, Any]]:
    """Yield the events of a stream: name, id, data."""
    fields = dict[str, str]()
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
        else:
            if "data" in fields:
                yield fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"])
            fields = {}


async def test_the_tail_of_one_gateway_has_the_requests_of_both(sent: Sent) -> None:
    async with (
        sent.up.one.client(**BEARER) as client,
        client.stream("GET", "/admin/requests/tail", params={"model": "absent"}) as stream,
        asyncio.timeout(SOON_S),
    ):
        events = followed(stream)
        name, begin, _ = await anext(events)
        answers = [
            await sent.up.ask(sent.up.two, "blue", "absent"),
            await sent.up.ask(sent.up.two, "blue", "other"),
            await sent.up.ask(sent.up.one, "red", "absent"),
        ]
        seen = [await anext(events) for _ in range(2)]
        await events.aclose()
    async with (
        sent.up.two.client(**BEARER, **{"last-event-id": begin}) as client,
        client.stream("GET", "/admin/requests/tail", params={"model": "absent"}) as stream,
        asyncio.timeout(SOON_S),
    ):
        events = followed(stream)
        again = [await anext(events) for _ in range(3)]
        await events.aclose()

    ids = [answers[place].headers["x-gateway-request-id"] for place in (0, 2)]
    assert name == "begin"
    assert {event[2]["request_id"] for event in seen} == set(ids)
    assert [event[0] for event in again] == ["begin", "request", "request"]
    assert {event[2]["request_id"] for event in again[1:]} == set(ids)


async def test_a_tail_ends_when_its_gateway_stops(postgres: Postgres, tmp_path: Path) -> None:
    async with two_gateways(postgres, tmp_path) as up:
        async with (
            up.one.client(**BEARER) as client,
            client.stream("GET", "/admin/requests/tail") as stream,
            asyncio.timeout(SOON_S),
        ):
            events = followed(stream)
            await anext(events)
            up.one.process.terminate()
            last = [event async for event in events]
        assert await up.one.process.wait() == 0

    assert [event[0] for event in last] == ["end"]


async def command(sent: Sent, *words: str) -> tuple[str, str]:
    """Ask the second gateway; return what is printed on stdout and stderr."""
    given = ("--url", sent.up.two.url, "--admin-key", ADMIN)
    status, out, err = await printed("requests", *words, *given)
    assert status == 0, err
    return out, err


async def test_one_command_shows_which_requests_of_a_team_failed_why_and_at_what_cost(
    sent: Sent,
) -> None:
    out, err = await command(sent, "list", "--team", "red", "--status", "failed", "--key=red-app")
    as_json, _ = await command(sent, "list", "--team", "red", "--status", "failed", "--json")

    newest = next(row for row in table(out, "ENDED") if sent.ids["red failed"] in row)
    assert newest[2:7] == ["502", "upstream_failed", "broken", "p/bad", "red-app"]
    assert "out of order" in newest[-1]
    assert "failed, of these 1 errors" in err
    assert sent.ids["red failed"] in [one["request_id"] for one in json.loads(as_json)["requests"]]


async def test_a_command_shows_one_request(sent: Sent) -> None:
    out, _ = await command(sent, "show", sent.ids["red fell back"])
    _, nothing, err = await printed(
        "requests", "show", "none", "--url", sent.up.two.url, "--admin-key", ADMIN
    )

    assert "model        talk (chat)" in out
    assert "cost         $10" in out
    assert [row[1:3] for row in table(out, "ATTEMPT")] == [
        ["p/flaky", "upstream_failed"],
        ["p/good", "ok"],
    ]
    assert (nothing, "request 'none' not found" in err) == ("", True)


async def test_a_body_that_is_not_json_leaves_a_request_that_failed(sent: Sent) -> None:
    async with sent.up.one.client(authorization=f"Bearer {KEYS['blue']}") as client:
        answer = await client.post("/v1/chat/completions", content=b'{"model": "chat"} and more')
    request_id = answer.headers["x-gateway-request-id"]

    found = await listed(sent.up.one, id=request_id, status="client_error")

    (one,) = found["requests"]
    assert (answer.status_code, one["status"], one["key"]) == (400, 400, "blue-app")
    assert one["message"]


@pytest.mark.parametrize("text", ["=1+1", " =1+1", "\ufeff@SUM(A1)", "\t-1", "+cmd"])
def test_a_cell_that_a_spreadsheet_would_run_is_text(text: str) -> None:
    assert harmless(text) == f"'{text}"
    assert harmless("a=1") == "a=1"


async def test_an_export_has_a_column_per_field_and_no_formula(sent: Sent) -> None:
    headers = {"x-request-id": "=1+1", "x-gateway-tags": "b, a"}
    answer = await sent.up.ask(sent.up.two, "blue", "absent", **headers)
    await recorded(sent.up.two, {"one": answer.headers["x-gateway-request-id"]})
    async with asyncio.timeout(SOON_S):
        rows, names = list[dict[str, str]](), list[str]()
        while not rows:  # until it is in the store
            table = await admin(sent.up.one, "/requests/export", format="csv", id="=1+1")
            names, *cells = csv.reader(io.StringIO(table.text))
            rows = [dict(zip(names, one, strict=True)) for one in cells]
            await asyncio.sleep(0.2)

    assert len(set(names)) == len(names)
    assert (rows[0]["client_request_id"], rows[0]["request_tags"]) == ("'=1+1", "a b")


async def test_a_command_exports(sent: Sent) -> None:
    out, _ = await command(sent, "export", "--format", "csv", "--id", "mine")

    (row,) = csv.DictReader(io.StringIO(out))
    assert row["request_id"] == sent.ids["red failed"]


@pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    reason="a job in the background of a shell ignores interrupts, and so do its children",
)
async def test_a_command_follows_and_ends_at_an_interrupt(sent: Sent) -> None:
    read, write = os.pipe()
    words = ("requests", "tail", "--model", "followed", "--json")
    given = ("--url", sent.up.two.url, "--admin-key", ADMIN)
    process = await fork_into((*words, *given), dict(os.environ), [write, os.dup(2)])
    with os.fdopen(read, "rb") as out:
        async with asyncio.timeout(SOON_S):
            while not select.select([out], [], [], 0)[0]:
                await sent.up.ask(sent.up.one, "red", "followed")  # until it follows
                await asyncio.sleep(0.5)
            line = await asyncio.to_thread(out.readline)
            process.send_signal(signal.SIGINT)
            status = await process.wait()

    assert json.loads(line)["error"] == "model_not_found"
    assert status == 130


async def view(sent: Sent, path: str, **query: str) -> str:
    """Return a view of the second gateway's page."""
    answer = await admin(sent.up.two, path, **query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    return answer.text


async def test_the_page_answers_in_three_clicks(sent: Sent) -> None:
    """The navigation, the form with its button, and the request."""
    overview = await view(sent, "")
    form = await view(sent, "/view/requests")
    found = await view(
        sent, "/view/requests", team="red", status="failed", since=str(sent.since), id="mine"
    )
    one = await view(sent, f"/view/requests/{sent.ids['red failed']}")

    assert '<a href="/admin/view/requests">Requests</a>' in overview
    assert all(f'name="{name}"' in form for name in ("team", "status", "since"))
    assert f'href="/admin/view/requests/{sent.ids["red failed"]}"' in found
    assert sent.ids["blue failed"] not in found
    assert "out of order" in found
    assert "1 requests · 1 failed" in found
    assert "$0.00 for all attempts" in found
    assert "502 upstream_failed" in one
    assert 'class="timeline"' in one
    assert "?payload=true" in one


async def test_every_value_of_the_list_is_a_link_that_filters(sent: Sent) -> None:
    page = await view(sent, "/view/requests", team="blue")

    for link in (
        "/admin/view/requests?team=blue&amp;model=chat",
        "/admin/view/requests?team=blue&amp;backend=p%2Fflaky",
        "/admin/view/requests?team=blue&amp;key=blue-app",
        "/admin/view/requests?team=blue&amp;error=upstream_failed",
        "/admin/requests/export?team=blue&amp;format=csv",
        "/admin/view/requests?team=blue&amp;live=true",
    ):
        assert link in page, link


async def test_the_page_shows_a_payload_and_the_audit_log_who_read_it(sent: Sent) -> None:
    """Both are stored a moment later."""
    request_id, read, page = sent.ids["blue failed"], list[str](), ""
    async with asyncio.timeout(SOON_S):
        while request_id not in read:
            page = await view(sent, f"/view/requests/{request_id}", payload="true")
            await asyncio.sleep(0.2)
            entries = (await admin(sent.up.two, "/audit", action="payload.read")).json()["rows"]
            read = [one["target"] for one in entries]

    assert "&#34;messages&#34;" in page


async def test_a_view_that_follows_refreshes_itself(sent: Sent) -> None:
    live = await view(sent, "/view/requests", live="true")
    still = await view(sent, "/view/requests")

    assert 'id="requests" aria-label="Requests" data-live data-every="2"' in live
    assert "data-every" not in still.partition('id="requests"')[2].partition(">")[0]


async def test_a_wrong_filter_is_explained_in_the_form(sent: Sent) -> None:
    answer = await admin(sent.up.two, "/view/requests", since="yesterday", team="<b>")
    unknown = await admin(sent.up.two, "/view/requests/none")

    assert answer.status_code == 400
    assert "is not a time" in answer.text
    assert 'value="yesterday"' in answer.text
    assert "<b>" not in answer.text.partition('id="requests"')[2]
    assert unknown.status_code == 404
    assert "not found" in unknown.text


async def test_the_view_speaks_chinese(sent: Sent) -> None:
    async with sent.up.two.client(**BEARER, **{"accept-language": "zh"}) as client:
        page = (await client.get("/admin/view/requests", params={"team": "red"})).text

    assert "最新在前" in page
    assert "错误代码" in page


@pytest.mark.skipif(chromium() is None, reason="no Chromium here")
async def test_in_a_browser_three_clicks_lead_to_the_answer_also_on_a_phone(sent: Sent) -> None:
    async with browsing() as browser:
        page = await browser.new_page(viewport={"width": 390, "height": 844})
        page.set_default_timeout(SOON_S * 1000)
        await page.goto(f"{sent.up.two.url}/admin")
        await page.fill("input[name=key]", ADMIN)
        await page.click("text=Sign in")
        await page.goto(f"{sent.up.two.url}/admin/view/requests")

        await page.select_option("select[name=status]", "failed")
        await page.fill("input[name=team]", "red")
        await page.fill("input[name=since]", "1h")
        await page.click("text=Show")
        await page.wait_for_url("**/requests?*team=red*")
        listed = await page.inner_text("#requests")
        wide = await page.evaluate("document.documentElement.scrollWidth")
        await page.click(f"a[href$='{sent.ids['red failed']}']")
        await page.wait_for_selector("#request")
        one = await page.inner_text("#request")
        wide_too = await page.evaluate("document.documentElement.scrollWidth")

    assert "502 upstream_failed" in listed
    assert "out of order" in one
    assert "Cost of all attempts" in one
    assert (wide, wide_too) == (390, 390)
