"""Clients that guess keys are delayed; clients with a valid key never are."""

import asyncio
import logging
import time
from pathlib import Path
from typing import cast

import httpx
import pytest
from litestar.types import HTTPScope

from strowger_gateway.gateway.governance.access import wrong_keys as guesses
from strowger_gateway.gateway.governance.access.wrong_keys import (
    FORGET_S,
    FREE,
    LONGEST_S,
    MAX_ADDRESSES,
    WrongKeyThrottle,
    client_network,
)
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import answers, provider

pytestmark = pytest.mark.anyio

KEYS = "keys: [{name: a, key: the-key-of-team-a}]"
CONFIG = f"auth: {{mode: keys, {KEYS}, admin_key: the-operators-key}}"
RIGHT = {"authorization": "Bearer the-key-of-team-a"}
BODY = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("method", "path", "header"),
    [
        ("POST", "/v1/chat/completions", "authorization"),
        ("POST", "/v2/models/chat/infer", "api-key"),
        ("GET", "/v1/models", "authorization"),
        ("GET", "/admin/series", "authorization"),
        ("POST", "/admin/sign-in", ""),
    ],
)
async def test_wrong_keys_are_slowed_and_right_ones_are_not(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    header: str,
) -> None:
    monkeypatch.setattr(guesses, "FIRST_S", 0.02)
    async with (
        provider(answers) as remote,
        serving(one_model(remote.base_url, CONFIG), tmp_path) as running,
        httpx.AsyncClient(timeout=60) as client,
    ):
        found: list[httpx.Response] = []
        with caplog.at_level(logging.WARNING):
            for n in range(FREE + 3):
                sent = {header: f"Bearer wrong-{n}"} if header else {}
                form = {} if header else {"key": f"wrong-{n}"}
                url = running.url + path
                found.append(await client.request(method, url, headers=sent, data=form or None))
        right = await client.post(f"{running.url}/v1/chat/completions", json=BODY, headers=RIGHT)

    assert [one.status_code for one in found] == [401] * FREE + [429] * 3
    assert all(int(one.headers["retry-after"]) >= 1 for one in found[FREE:])
    if path.startswith("/v1"):
        assert found[-1].json()["error"]["code"] == "too_many_wrong_keys"
    assert right.status_code == 200
    logged = [one for one in caplog.records if "wrong API keys from 127.0.0.1" in one.message]
    assert len(logged) == 1


async def test_guesses_that_are_delayed_leave_the_gateway_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delayed request is in flight, so that a small gateway could be full of them."""
    monkeypatch.setattr(guesses, "FIRST_S", 3.0)
    config = f"{CONFIG}\nserver: {{max_in_flight: 8}}"
    async with (
        provider(answers) as remote,
        serving(one_model(remote.base_url, config), tmp_path) as running,
        httpx.AsyncClient(timeout=60) as client,
    ):
        url = f"{running.url}/v1/chat/completions"

        async def guess(n: int) -> int:
            headers = {"authorization": f"Bearer wrong-{n}"}
            return (await client.post(url, json=BODY, headers=headers)).status_code

        free = [await guess(n) for n in range(FREE)]
        guessing = [asyncio.create_task(guess(n)) for n in range(10)]
        await asyncio.wait(guessing, return_when=asyncio.FIRST_COMPLETED)
        right = await client.post(url, json=BODY, headers=RIGHT)
        delayed = sum(not one.done() for one in guessing)
        statuses = await asyncio.gather(*guessing)

    assert set(free) == {401}
    assert right.status_code == 200
    assert delayed <= 1
    assert set(statuses) <= {429, 503}


async def test_requests_without_a_key_are_not_guesses(tmp_path: Path) -> None:
    async with (
        provider(answers) as remote,
        serving(one_model(remote.base_url, CONFIG), tmp_path) as running,
        httpx.AsyncClient(timeout=60) as client,
    ):
        found = [await client.get(f"{running.url}/v1/models") for _ in range(FREE + 5)]

    assert {one.status_code for one in found} == {401}


def test_waits_grow_and_are_forgotten() -> None:
    at = time.time()
    table = WrongKeyThrottle(lambda: at)

    waits = [table.noted("10.0.0.1")[1] for _ in range(FREE + 8)]
    other = table.noted("10.0.0.2")[1]
    at += FORGET_S * 30
    later = table.noted("10.0.0.1")[1]

    assert waits[:FREE] == [0.0] * FREE
    assert waits[FREE:] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_S, LONGEST_S]
    assert other == later == 0.0


def test_attempts_that_cost_something_wait_before_they_are_looked_at() -> None:
    """Each failure from anywhere in an IPv6 customer's network makes all of it wait longer."""
    at = 1000.0
    table = WrongKeyThrottle(lambda: at, what="failed sign-ins")
    one, other, stranger = (
        cast(HTTPScope, {"client": (host, 1)})
        for host in ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1")
    )
    waits: list[float] = []
    for _ in range(FREE + 3):
        table.note_failure(one, "")
        waits.append(table.wait_s(other, ""))
    elsewhere = table.wait_s(stranger, "")
    at += waits[-1] + 0.001

    assert waits == pytest.approx([0.0] * FREE + [0.1, 0.2, 0.4])
    assert elsewhere == table.wait_s(other, "") == 0.0


def test_the_table_is_bounded() -> None:
    table = WrongKeyThrottle(lambda: 0.0)

    for n in range(MAX_ADDRESSES + 50):
        table.noted(str(n))

    assert len(table._tallies) == MAX_ADDRESSES  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
    ],
)
def test_an_ipv6_network_is_one_client(one: str, other: str, same: bool) -> None:
    found = [client_network(cast(HTTPScope, {"client": (host, 1)})) for host in (one, other)]

    assert (found[0] == found[1]) is same
