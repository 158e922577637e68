"""/admin/requests shows what a gateway remembers: before it is stored, and without a store."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.gateway.commanded import SOON_S
from tests.gateway.forked_commands import forked
from tests.gateway.serving import one_model, serving

pytestmark = pytest.mark.anyio

OPERATOR = {"authorization": "Bearer key-of-the-operator"}
ASKED = 5


@pytest.fixture(scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[httpx.AsyncClient]:
    """Of a gateway that has refused five requests: their model is unknown."""
    config = one_model("http://127.0.0.1:9/v1", "auth: {admin_key: key-of-the-operator}")
    async with (
        serving(config, tmp_path_factory.mktemp("run")) as up,
        httpx.AsyncClient(base_url=up.url, headers=OPERATOR, timeout=60) as one,
    ):
        for _ in range(ASKED):
            await refused(one)
        yield one


async def refused(client: httpx.AsyncClient) -> str:
    """Ask for an unknown model; return the request's id."""
    body = {"model": "absent", "messages": [{"role": "user", "content": "hi"}]}
    answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 404
    return answer.headers["x-gateway-request-id"]


async def test_pages_have_all_that_is_remembered(client: httpx.AsyncClient) -> None:
    ids, sizes, after = list[str](), list[int](), ""
    while True:
        query = {"limit": "2", "after": after}
        page = (await client.get("/admin/requests", params=query)).json()
        ids += [one["request_id"] for one in page["requests"]]
        sizes.append(len(page["requests"]))
        assert page["incomplete"].startswith("there is no store")
        after = page["next"]
        if not after:
            break

    assert sizes == [2, 2, 1]
    assert len(set(ids)) == ASKED


async def test_totals_are_of_all_that_is_remembered(client: httpx.AsyncClient) -> None:
    query = {"limit": "2", "totals": "true", "status": "failed"}
    totals = (await client.get("/admin/requests", params=query)).json()["totals"]
    page = (await client.get("/admin/view/requests")).text

    assert (totals["requests"], totals["failed"], totals["errors"]) == (ASKED, ASKED, 0)
    assert f"{ASKED} requests · {ASKED} failed" in page
    assert "Only what this gateway remembers" in page


async def test_older_ones_are_found_by_their_time(client: httpx.AsyncClient) -> None:
    now = (await client.get("/admin/requests")).json()["requests"][0]["time"]
    later = await client.get("/admin/requests", params={"until": str(now + 1)})
    earlier = await client.get("/admin/requests", params={"until": "1h"})

    assert len(later.json()["requests"]) == ASKED
    assert earlier.json()["requests"] == []


@pytest.mark.parametrize(("hours", "found"), [(-1, ASKED), (1, 0)])
@pytest.mark.parametrize("zone", ["+00:00", " 00:00", "Z", ""])
async def test_an_iso_time_also_with_a_plus_that_was_not_escaped(
    hours: int, found: int, zone: str, client: httpx.AsyncClient
) -> None:
    since = datetime.now(UTC) + timedelta(hours=hours)
    query = {"since": since.strftime("%Y-%m-%dT%H:%M:%S") + zone}
    answer = await client.get("/admin/requests", params=query)

    assert len(answer.json()["requests"]) == found


async def test_eight_digits_are_a_day(client: httpx.AsyncClient) -> None:
    days = [datetime.now(UTC) + timedelta(days=number) for number in (-1, 1)]
    answers = [
        await client.get("/admin/requests", params={"since": day.strftime("%Y%m%d")})
        for day in days
    ]

    assert [len(answer.json()["requests"]) for answer in answers] == [ASKED, 0]


@pytest.mark.parametrize("after", ["nan,x", "inf,x", ","])
async def test_a_place_that_is_no_time_is_refused(after: str, client: httpx.AsyncClient) -> None:
    answer = await client.get("/admin/requests", params={"after": after})

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "after")


async def test_totals_count_what_is_listed_also_before_it_is_stored(tmp_path: Path) -> None:
    more = "auth: {admin_key: key-of-the-operator}\nstore: {url: 'sqlite:///s.db', spool: spool}"
    config = one_model("http://127.0.0.1:9/v1", more)
    async with (
        forked(tmp_path / "config.yaml", config, folder=tmp_path) as up,
        up.client(**OPERATOR) as client,
    ):
        for number in (1, 2, 3):
            request_id = await refused(client)
            answer = await client.get("/admin/requests", params={"totals": "true"})
            page = (await client.get("/admin/view/requests")).text
            found = answer.json()

            assert len(found["requests"]) == number
            assert (found["totals"]["requests"], found["totals"]["failed"]) == (number, number)
            assert f"{number} requests · {number} failed" in page
        async with asyncio.timeout(SOON_S):
            export = {"id": request_id}
            while not (await client.get("/admin/requests/export", params=export)).text:  # noqa: ASYNC110  nothing reports it
                await asyncio.sleep(0.1)
        stored = (await client.get("/admin/requests", params={"totals": "true"})).json()

    assert (stored["totals"]["requests"], len(stored["requests"])) == (3, 3)
