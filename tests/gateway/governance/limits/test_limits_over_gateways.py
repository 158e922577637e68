"""Limits over two gateways through Redis: one process, and a leader with two workers."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack
from hashlib import sha256
from time import monotonic
from typing import cast

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.coordination.redis_transport import RedisTransport
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S, Commanded, connected
from tests.gateway.forked_commands import forked
from tests.gateway.governance.limits.test_limited_requests import HELLO, says_hello
from tests.gateway.governance.limits.test_limits_over_workers import until_received
from tests.stand_ins.provider import Answer, Provider, Received, provider
from tests.stand_ins.redis_groups.certificates import Authority
from tests.stand_ins.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.anyio

CONFIG = """
store: {{redis_url: "{redis}"}}
server: {{drain_delay_s: 0}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{keys}]}}
providers:
  - {{name: one, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - {{name: chat, backends: [{{provider: one, model: m-1}}]}}
limits:
  - {{name: burst, who: {{key: a}}, requests: 20, per: hour}}
  - {{name: tokens, who: {{key: b}}, tokens: 300, per: hour}}
  - {{name: seats, who: {{key: c}}, concurrent: 3}}
  - {{name: people, who: {{key: f}}, each: end_user, requests: 5, per: hour}}
  - {{name: huge, who: {{key: g}}, requests: {most}, tokens: {most}, concurrent: {most}}}
  - {{name: local, who: {{key: d}}, requests: 8, per: hour}}
  - {{name: strict, who: {{key: e}}, requests: 8, per: hour, on_outage: refuse}}
"""
CHAT = "/v1/chat/completions"


class Gateways(Struct, kw_only=True, eq=False):
    """clients: one for each process that serves, of both gateways."""

    redis: RedisServer
    remote: Provider
    up: tuple[Commanded, Commanded]
    clients: list[httpx.AsyncClient]

    async def send(self, process: int, key: str, **more: str) -> httpx.Response:
        headers = {"authorization": f"Bearer key-of-{key}-00000000"}
        return await self.clients[process % 3].post(CHAT, json=HELLO | more, headers=headers)


@pytest.fixture(
    scope="module",
    params=[
        "redis",
        pytest.param("rediss", marks=pytest.mark.nightly),
        pytest.param("valkey", marks=pytest.mark.nightly),
    ],
)
def redis(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[RedisServer]:
    """In cleartext; with TLS and certificates of both sides; and Valkey, where it is installed."""
    if request.param == "rediss":
        authority = Authority(tmp_path_factory.mktemp("tls"))
        with running_redis(*authority.options("yes")) as server:
            server.url = authority.url(server.port)
            yield server
        return
    program = "valkey-server" if request.param == "valkey" else "redis-server"
    with running_redis(program=program) as server:
        yield server


@pytest.fixture(scope="module")
async def two(
    redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Gateways, None]:
    folder = tmp_path_factory.mktemp("gateways")
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        keys = ", ".join(f"{{name: {key}, key: key-of-{key}-00000000}}" for key in "abcdefg")
        text = CONFIG.format(redis=redis.url, url=remote.base_url, keys=keys, most=10**12)
        files = [folder / name / "config.yaml" for name in ("one", "two")]
        for file in files:
            file.parent.mkdir()
        one, other = await asyncio.gather(
            stack.enter_async_context(forked(files[0], text)),
            stack.enter_async_context(forked(files[1], text, "--workers", "2")),
        )
        processes = ((one, 0), (other, 0), (other, 1))
        clients = [await connected(up, stack, worker) for up, worker in processes]
        yield Gateways(redis=redis, remote=remote, up=(one, other), clients=clients)


async def test_three_processes_of_two_gateways_admit_together_exactly_the_limit(
    two: Gateways,
) -> None:
    two.remote.behaviour = says_hello
    answers = [await two.send(turn, "a") for turn in range(26)]

    assert [one.status_code for one in answers] == [200] * 20 + [429] * 6
    assert 3500 < int(answers[-1].headers["retry-after"]) <= 3600
    assert "'burst' allows 20 requests per hour" in answers[-1].json()["error"]["message"]
    assert answers[0].headers["x-ratelimit-remaining-requests"] == "19"


async def test_two_gateways_hold_each_end_user_to_exactly_the_limit(two: Gateways) -> None:
    """Redis knows them by hashes; each process shows what all of them have used."""
    two.remote.behaviour = says_hello
    users = ("ann@example.com", "ben@example.com")
    answers = {user: [await two.send(turn, "f", user=user) for turn in range(8)] for user in users}
    query = {"key": "f", "end_user": users[0]}
    headers = {"authorization": "Bearer key-of-the-operator"}
    async with asyncio.timeout(SOON_S):
        while True:
            shown = [
                (await one.get("/admin/limits", params=query, headers=headers)).json()["limits"][0]
                for one in two.clients
            ]
            if all((one["used"], one["left"]) == (5, 0) for one in shown):
                break
            await asyncio.sleep(0.05)
    transport = RedisTransport(Secret(two.redis.url), "test")
    (keys,) = await transport.run([("KEYS", "strowger:limit:*:people:*")])
    await transport.leave()

    for found in answers.values():
        assert [one.status_code for one in found] == [200] * 5 + [429] * 3
    names = {key.rpartition(b":")[2].decode() for key in cast("list[bytes]", keys)}
    assert names == {sha256(user.encode()).hexdigest()[:32] for user in users}


async def test_a_burst_of_concurrent_requests_never_exceeds_the_limit_of_tokens(
    two: Gateways,
) -> None:
    """Each reserves 24 of 300 tokens and uses 10. What is not used returns within a second."""
    two.remote.behaviour = says_hello
    burst = await asyncio.gather(*(two.send(turn, "b") for turn in range(60)))
    admitted = sum(one.status_code == 200 for one in burst)
    async with asyncio.timeout(60):
        while admitted < 28:
            await asyncio.sleep(0.3)
            admitted += (await two.send(admitted, "b")).status_code == 200
    await asyncio.sleep(1.5)
    last = [(await two.send(turn, "b")).status_code for turn in range(3)]

    assert admitted == 28
    assert last == [429] * 3


async def test_the_largest_limits_are_held_over_gateways(two: Gateways) -> None:
    two.remote.behaviour = says_hello
    answers = [await two.send(turn, "g") for turn in range(6)]

    assert [one.status_code for one in answers] == [200] * 6
    assert answers[0].headers["x-ratelimit-limit-tokens"] == str(10**12)


async def test_without_redis_each_gateway_limits_alone_or_refuses(two: Gateways) -> None:
    two.remote.behaviour = says_hello
    before = [(await two.send(turn, "d")).status_code for turn in range(4)]
    await two.send(0, "e")
    two.redis.kill()
    try:
        strict = await two.send(0, "e")
        alone = [(await two.send(0, "d")).status_code for _ in range(12)]
    finally:
        two.redis.start()
    async with asyncio.timeout(60):
        while (await two.send(0, "e")).status_code != 200:  # noqa: ASYNC110  it is another process's
            await asyncio.sleep(0.2)

    assert before == [200] * 4
    assert strict.status_code == 503
    assert "Redis does not answer" in strict.json()["error"]["message"]
    # Of 8 requests this gateway has used 2, the other one the rest.
    assert alone == [200] * 6 + [429] * 6


async def test_a_redis_that_hangs_delays_the_first_request_only(two: Gateways) -> None:
    two.remote.behaviour = says_hello
    await asyncio.sleep(1.5)  # leases return, so that the next request has to ask
    two.redis.hang()
    try:
        first = await two.send(0, "c")
        took_s: list[float] = []
        more: list[httpx.Response] = []
        for _ in range(5):
            began = monotonic()
            more.append(await two.send(0, "c"))
            took_s.append(monotonic() - began)
    finally:
        two.redis.go_on()
    await asyncio.sleep(2.5)
    after = await two.send(0, "c")

    assert [one.status_code for one in (first, *more, after)] == [200] * 7
    assert min(took_s) < 0.5, "a busy machine delays some; if requests wait, none is quick"


async def test_the_seats_of_a_killed_gateway_return_after_its_silence(two: Gateways) -> None:
    go = asyncio.Event()

    async def waits(request: Received, answer: Answer) -> None:
        await go.wait()
        await answer.chat()

    two.remote.behaviour = waits
    seen = len(two.remote.requests)
    held = [asyncio.create_task(two.send(process, "c")) for process in (0, 1, 2)]
    await until_received(two.remote, seen + 3)
    headers = {"authorization": "Bearer key-of-c-00000000"}
    async with two.up[1].client(**headers) as fourth:
        refused = await fourth.post(CHAT, json=HELLO)
        os.kill(two.up[0].process.pid, signal.SIGKILL)
        await asyncio.gather(held[0], return_exceptions=True)
        two.remote.behaviour = says_hello
        early = await fourth.post(CHAT, json=HELLO)
        async with asyncio.timeout(30):
            while (await fourth.post(CHAT, json=HELLO)).status_code != 200:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.3)
    go.set()
    answers = await asyncio.gather(held[1], held[2])

    assert refused.status_code == 429
    assert early.status_code == 429
    assert [one.status_code for one in answers] == [200, 200]
