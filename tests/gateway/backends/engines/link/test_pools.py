"""A provider whose engines are on other machines: each is a replica, and none is missed."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from strowger_gateway.local_engine.protocol.frames import Leaving, Ready, frame
from tests.gateway.backends.engines.link.fleets import Certificates, fleet, pool
from tests.gateway.routing.failures.engine_stand_in import Asked, works
from tests.gateway.serving import Serving, serving
from tests.local_engine.listening.ports import listening

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


async def ask(gateway: Serving, **more: object) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{gateway.url}/v1/chat/completions", json={**HELLO, **more})


async def ask_many(gateway: Serving, count: int) -> Sequence[int]:
    """The statuses of concurrent requests, half of them streams."""
    answers = await asyncio.gather(*(ask(gateway, stream=bool(n % 2)) for n in range(count)))
    return [one.status_code for one in answers]


async def answered(gateway: Serving) -> httpx.Response:
    """Ask until there is an answer."""
    async with asyncio.timeout(60):
        while True:
            got = await ask(gateway)
            if got.status_code == 200:
                return got
            await asyncio.sleep(0.05)


async def test_requests_spread_over_the_engines(certificates: Certificates, tmp_path: Path) -> None:
    async with fleet(certificates) as (one, other):
        config = pool([one.host, other.host], certificates.tls())
        async with serving(config, tmp_path, seed=1) as gateway:
            statuses = await ask_many(gateway, 40)

    assert statuses == [200] * 40
    assert min(one.asked, other.asked) >= 10


async def test_the_log_names_the_engine_that_answered(
    certificates: Certificates, tmp_path: Path
) -> None:
    async with fleet(certificates, works) as (one,):
        async with serving(pool([one.host], certificates.tls()), tmp_path) as gateway:
            await ask(gateway)
            (line,) = gateway.access_lines()

    assert line.backend == f"pool@{one.host}/m"


async def test_an_engine_that_dies_under_load_fails_no_request_without_content(
    certificates: Certificates, tmp_path: Path
) -> None:
    """Those on the dead engine had shown nothing, and are answered by the other."""
    gone = asyncio.Event()

    async def dies(asked: Asked) -> None:
        await asked.begin()
        await gone.wait()

    async with fleet(certificates, dies, works) as (one, other):
        config = pool([one.host, other.host], certificates.tls())
        async with serving(config, tmp_path, seed=1) as gateway:
            asking = asyncio.create_task(ask_many(gateway, 30))
            await one.engines.until(lambda: one.asked >= 3)
            one.die()
            statuses = [*await asking, *await ask_many(gateway, 20)]
            gone.set()

    assert statuses == [200] * 50
    assert other.asked == 50


async def test_an_engine_that_leaves_finishes_its_answers_and_gets_no_more(
    certificates: Certificates, tmp_path: Path
) -> None:
    finish = asyncio.Event()

    async def leaves(asked: Asked) -> None:
        await asked.begin()
        await asked.write(Leaving())
        await finish.wait()
        await asked.say("hello", 11, 1)
        await asked.end()

    async with fleet(certificates, leaves, works) as (one, other):
        config = pool([one.host, other.host], certificates.tls(), "    # \n")
        async with serving(config, tmp_path, seed=1) as gateway:
            first = [asyncio.create_task(ask(gateway)) for _ in range(2)]
            await one.engines.until(lambda: one.asked >= 1)
            one.close_port()
            statuses = await ask_many(gateway, 10)
            finish.set()
            answers = await asyncio.gather(*first)

    assert statuses == [200] * 10
    assert [one.status_code for one in answers] == [200] * 2
    assert (one.asked, other.asked) == (1, 11)


async def test_a_refused_certificate_is_named_in_the_error_and_the_log(
    certificates: Certificates, tmp_path: Path
) -> None:
    expired = certificates.issue("gateway-a", "expired", days=-1)
    async with listening(certificates.engine) as port:
        config = pool([str(port.listener.address)], certificates.tls(expired))
        async with serving(config, tmp_path) as gateway:
            answer = await ask(gateway)
            lines = gateway.access_lines()

    assert answer.status_code == 503
    assert "certificate refused" in answer.text
    assert str(tmp_path) not in answer.text
    assert "127.0.0.1" not in answer.text
    assert f"refused our certificate {expired.cert}: it has expired" in str(lines)


async def test_an_engine_of_another_protocol_is_refused_with_both_versions(
    tmp_path: Path,
) -> None:
    async def newer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(Ready(models=("m",), protocol=99, release="9.9")))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(newer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    host = f"127.0.0.1:{port}"
    async with server, serving(pool([host]), tmp_path) as gateway:
        answer = await ask(gateway)
        lines = gateway.access_lines()

    assert answer.status_code == 503
    assert "incompatible" in answer.text
    assert "version 99 of the protocol and this gateway version 1" in str(lines)


async def test_a_renewed_certificate_is_used_without_a_restart(
    certificates: Certificates, tmp_path: Path
) -> None:
    old = certificates.issue("gateway-a", "gateway", days=-1)
    async with fleet(certificates, works) as (one,):
        config = pool([one.host], certificates.tls(old), "    breaker: {min_requests: 1000}\n")
        async with serving(config, tmp_path) as gateway:
            before = await ask(gateway)
            certificates.issue("gateway-a", "gateway")
            after = await answered(gateway)

    assert before.status_code == 503
    assert after.json()["choices"][0]["message"]["content"] == "hello"


async def test_an_engine_that_comes_back_is_used_again(tmp_path: Path) -> None:
    async with fleet(None, works) as (one,):
        async with serving(
            pool([one.host], "", "    breaker: {min_requests: 1000}\n"), tmp_path
        ) as gateway:
            assert (await ask(gateway)).status_code == 200
            one.die()
            assert (await ask(gateway)).status_code == 503
            await one.rise()
            await answered(gateway)


async def test_the_engines_are_listed_with_address_and_trouble(
    certificates: Certificates, tmp_path: Path
) -> None:
    async with fleet(certificates) as (one, other):
        config = pool(
            [one.host, other.host],
            certificates.tls(),
            more="auth: {admin_key: key-of-the-operator}",
        )
        other.die()
        async with serving(config, tmp_path) as gateway, httpx.AsyncClient(timeout=60) as client:
            found = await client.get(
                f"{gateway.url}/admin/engines",
                headers={"authorization": "Bearer key-of-the-operator"},
            )

    listed = {view["address"]: view for view in found.json()["engines"]}
    assert listed[one.host]["up"]
    assert (listed[other.host]["up"], listed[other.host]["state"]) == (False, "unreachable")
    assert "no engine listens there" in listed[other.host]["status"]
