"""Requests of clients that send the id of another request, and tails that many follow at once."""

import asyncio
from collections.abc import AsyncGenerator
from html import escape
from urllib.parse import quote

import pytest

from strowger_gateway.gateway.console.admin.request_log.tail import MOST
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.console.admin.browser import browsing, chromium
from tests.gateway.console.admin.request_log.two_gateways import (
    BEARER,
    KEYS,
    Two,
    admin,
    listed,
    recorded,
    two_gateways,
)
from tests.stand_ins.postgres import Postgres

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def up(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Two]:
    async with two_gateways(postgres, tmp_path_factory.mktemp("two")) as found:
        yield found


async def shown(up: Commanded, request_id: str) -> tuple[str, str]:
    """Return the id and the team of the request that is shown for an id."""
    found = (await admin(up, f"/requests/{quote(request_id, safe='')}")).json()
    return found["request_id"], found["team"]


async def test_no_client_hides_a_request_by_sending_its_id(up: Two) -> None:
    """Neither at once nor when it is stored, also where only the other request is remembered."""
    failed = (await up.ask(up.one, "red", "broken")).headers["x-gateway-request-id"]
    for gateway in (up.one, up.two):
        await up.ask(gateway, "blue", "absent", **{"x-request-id": failed})
    at_once = await shown(up.one, failed)
    await recorded(up.two, {"red": failed})
    async with asyncio.timeout(SOON_S):
        while (await shown(up.two, failed))[1] != "red":  # noqa: ASYNC110  until it is stored
            await asyncio.sleep(0.1)

    assert at_once == (failed, "red")
    assert [await shown(gateway, failed) for gateway in (up.one, up.two)] == [(failed, "red")] * 2


@pytest.mark.parametrize(
    "written", ["{}", "chatcmpl-{}", "resp_{}", "msg_{}_0", "{upper}", "{digits}", "CMPL-{upper}"]
)
async def test_the_id_in_an_answer_finds_its_request(written: str, up: Two) -> None:
    answer = await up.ask(up.one, "blue")
    request_id = answer.headers["x-gateway-request-id"]
    digits = request_id.replace("-", "")
    text = written.format(request_id, upper=request_id.upper(), digits=digits)
    at_once = (await listed(up.one, id=text))["requests"]
    await recorded(up.two, {"it": request_id})

    stored = (await listed(up.two, id=text))["requests"]
    assert answer.json()["id"] == f"chatcmpl-{request_id}"
    assert [one["request_id"] for one in (*at_once, *stored)] == [request_id] * 2
    assert await shown(up.one, text) == await shown(up.two, text) == (request_id, "blue")


@pytest.mark.parametrize(
    "theirs", ["REQ-CAFEBABE1234", "chatcmpl-31ab33ad-0c19#114034", "100%_\\?x"]
)
async def test_any_id_of_a_client_finds_its_request(theirs: str, up: Two) -> None:
    """One may look like the id of an answer, or have a meaning in addresses or in SQL."""
    answer = await up.ask(up.one, "red", "absent", **{"x-request-id": theirs})
    request_id = answer.headers["x-gateway-request-id"]
    await recorded(up.two, {"it": request_id})

    assert [await shown(gateway, theirs) for gateway in (up.one, up.two)] == [
        (request_id, "red")
    ] * 2
    for gateway in (up.one, up.two):
        found = (await listed(gateway, id=theirs))["requests"]
        assert [one["request_id"] for one in found] == [request_id]


async def test_the_list_says_why_a_stream_broke_off(up: Two) -> None:
    body = {"model": "cut", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    headers = {"authorization": f"Bearer {KEYS['red']}"}
    async with up.one.client(**headers) as client:
        answer = await client.post("/v1/chat/completions", json=body)
    request_id = answer.headers["x-gateway-request-id"]

    (one,) = (await listed(up.one, id=request_id))["requests"]
    page = (await admin(up.one, "/view/requests", id=request_id, status="error")).text
    assert (answer.status_code, one["status"]) == (200, 200)
    assert one["error"]
    assert one["message"]
    assert f'<span class="quiet why">{escape(one["message"][:40])}' in page


async def test_a_filter_is_shown_in_the_readers_words(up: Two) -> None:
    chinese = {**BEARER, "accept-language": "zh-CN"}
    async with up.one.client(**chinese) as client:
        query = {"status": "refused", "stream": "true"}
        page = (await client.get("/admin/view/requests", params=query)).text

    assert "结果: 被规则拒绝 ×" in page
    assert ": 是 ×" in page


@pytest.mark.skipif(chromium() is None, reason="needs chromium-headless-shell")
async def test_on_a_phone_a_long_reason_stays_within_its_card(up: Two) -> None:
    answer = await up.ask(up.one, "red", "a" * 200)
    request_id = answer.headers["x-gateway-request-id"]
    async with browsing() as browser:
        context = await browser.new_context(
            viewport={"width": 390, "height": 844}, extra_http_headers=BEARER
        )
        page = await context.new_page()
        page.set_default_timeout(SOON_S * 1000)
        await page.goto(f"{up.one.url}/admin/view/requests/{request_id}")
        card = await page.eval_on_selector(
            "#request .about", "at => [at.scrollWidth, at.clientWidth]"
        )

    assert "a" * 200 in answer.json()["error"]["message"]
    assert card[0] <= card[1]


async def test_of_a_clients_id_the_last_request_is_shown(up: Two) -> None:
    ids = list[str]()
    for gateway in (up.one, up.two, up.one, up.two):
        answer = await up.ask(gateway, "red", "absent", **{"x-request-id": "again"})
        ids.append(answer.headers["x-gateway-request-id"])
    await recorded(up.one, {"last": ids[-1]})

    assert [await shown(gateway, "again") for gateway in (up.one, up.two)] == [(ids[-1], "red")] * 2


async def test_a_process_serves_so_many_followers_also_if_they_come_at_once(up: Two) -> None:
    statuses, all_here = list[int](), asyncio.Event()

    async def follow() -> None:
        async with (
            up.one.client(**BEARER) as client,
            client.stream("GET", "/admin/requests/tail") as stream,
        ):
            statuses.append(stream.status_code)
            if len(statuses) == MOST + 5:
                all_here.set()
            await all_here.wait()

    async with asyncio.timeout(SOON_S):
        await asyncio.gather(*[follow() for _ in range(MOST + 5)])
        while (await first_event(up.one)) != 200:  # noqa: ASYNC110  until they are seen to have left
            await asyncio.sleep(0.1)

    assert sorted(statuses) == [200] * MOST + [503] * 5


async def first_event(up: Commanded) -> int:
    async with up.client(**BEARER) as client, client.stream("GET", "/admin/requests/tail") as one:
        return one.status_code
