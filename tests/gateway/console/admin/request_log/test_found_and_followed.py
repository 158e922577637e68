"""Requests of clients that send the id of another request, and tails that many follow at once."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from strowger_gateway.gateway.console.admin.request_log.tail import MOST
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.console.admin.request_log.two_gateways import (
    BEARER,
    Two,
    admin,
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
    found = (await admin(up, f"/requests/{request_id}")).json()
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
