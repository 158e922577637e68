"""Redis as the transport between gateways: its address, leases and failures."""

import asyncio
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.redis_address import redis_address
from strowger_gateway.gateway.coordination.gateway_transport import TransportUnavailable
from strowger_gateway.gateway.coordination.redis_transport import RedisTransport
from strowger_gateway.gateway.coordination.setup import open_transport
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret
from tests.gateway.config.configs import GOOD, faults, read
from tests.stand_ins.ports.reserved import reserved_port
from tests.stand_ins.redis_groups.certificates import Authority
from tests.stand_ins.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def redis() -> Generator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("http://pass-w0rd@x", "must be redis://HOST, rediss://HOST, unix:///SOCKET, redis+sent"),
        ("redis+ring://pass-w0rd@x", "must be redis://HOST, rediss://HOST, unix:///SOCKET, redi"),
        ("redis+sentinel://pass-w0rd@x:1,y", "the name of the master's service is missing; use "),
        ("redis+sentinel://x:port/pass-w0rd", "each host must be HOST or HOST:PORT, separated by"),
        ("redis+sentinel://x,/pass-w0rd", "each host must be HOST or HOST:PORT, separated by com"),
        ("redis+sentinel://x/s/pass-w0rd", "only a database number may follow the service: /SERV"),
        ("redis+cluster://pass-w0rd@x/2", "a Redis Cluster only has database 0; remove what foll"),
        ("redis+cluster://x?sentinel_password=pass-w0rd", "sentinel_password belongs to redis+se"),
    ],
)
def test_an_address_that_is_none_is_refused_and_not_shown(url: str, fault: str) -> None:
    (found,) = faults(f"{GOOD}store: {{redis_url: '{url}'}}")

    assert found.startswith(f"store.redis_url: {fault}")
    assert "pass-w0rd" not in found


@pytest.mark.parametrize(
    "url",
    [
        "rediss://me:pass-w0rd@x:6380/2",
        "redis+sentinel://me:pass-w0rd@x:1,y,[::1]:2/s/3?sentinel_password=o",
        "rediss+cluster://x:1,y:2?ssl_cert_reqs=required",
    ],
)
def test_an_address_of_redis_is_taken(url: str) -> None:
    config = read(f"{GOOD}store: {{redis_url: '{url}'}}")

    assert config.store.redis_url == Secret(url)


def test_an_address_of_sentinels_names_hosts_service_database_and_both_logins() -> None:
    url = (
        "rediss+sentinel://me:p%40ss@one:1,two,[::1]:3/s%2F1/4?sentinel_username=w&ssl_ca_certs=/c"
    )
    address = redis_address(Secret(url))

    assert (address.kind, address.service) == ("sentinel", "s/1")
    assert address.hosts == (("one", 1), ("two", 26379), ("::1", 3))
    assert address.server.reveal() == "rediss://me:p%40ss@one:1/4?ssl_ca_certs=%2Fc"
    assert address.sentinel == {"sentinel_username": Secret("w")}


@pytest.mark.parametrize("kind", ["sentinel", "cluster"])
async def test_hosts_that_are_all_absent_are_named_without_the_password(kind: str) -> None:
    """Two ports that nothing listens at."""
    one, other = reserved_port(), reserved_port()
    hosts = f"127.0.0.1:{one},127.0.0.1:{other}"
    service = "/s" if kind == "sentinel" else ""
    absent = RedisTransport(Secret(f"redis+{kind}://me:pass-w0rd@{hosts}{service}"), "one")
    with pytest.raises(TransportUnavailable) as caught:
        await absent.exchange(b"", ())
    await absent.leave()

    assert absent.where == f"{hosts}{service}"
    assert "pass-w0rd" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://pass-w0rd@x:port",
        "redis://pass-w0rd@x?unheard_of=1",
        "redis+sentinel://pass-w0rd@x/s?unheard_of=1",
        "redis+cluster://pass-w0rd@x?unheard_of=1",
    ],
)
def test_an_address_that_the_client_cannot_read_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        open_transport(Secret(url))

    assert caught.value.problems[0].startswith("store.redis_url: not a Redis address")
    assert "in the password as %XX" in caught.value.problems[0]
    assert "pass-w0rd" not in caught.value.problems[0]


def test_without_its_client_the_start_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (
        "strowger_gateway.gateway.coordination.redis_transport",
        "strowger_gateway.gateway.storage.redis.client",
    ):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)

    with pytest.raises(InvalidConfig, match=r"pip install 'strowger-gateway\[redis\]'"):
        open_transport(Secret("redis://x"))


async def test_a_lease_is_one_gateways_until_it_gives_it_back_or_is_silent(
    redis: RedisServer,
) -> None:
    one, other = (RedisTransport(Secret(redis.url), name, lease_s=0.4) for name in ("one", "other"))

    first = await one.leases([("take", "p"), ("take", "q")])
    refused = await other.leases([("take", "p"), ("keep", "p"), ("give", "p")])
    given = await one.leases([("keep", "p"), ("give", "p")])
    taken = await other.leases([("take", "p")])
    await asyncio.sleep(0.5)
    lapsed = await other.leases([("take", "q"), ("keep", "p")])
    await one.leave()
    await other.leave()

    assert (first, refused, given) == ([True, True], [False] * 3, [True, True])
    assert (taken, lapsed) == ([True], [True, False])


async def test_a_gateway_that_leaves_removes_its_notice(redis: RedisServer) -> None:
    one, other = (RedisTransport(Secret(redis.url), name) for name in ("one", "other"))

    await one.exchange(b"first", ())
    both = await other.exchange(b"second", ())
    await one.leave()
    left = await other.exchange(b"second", ())
    none = await other.exchange(b"third", [b"other"])
    await other.leave()

    assert both == {b"one": b"first", b"other": b"second"}
    assert left == {b"other": b"second"}
    assert none == {}


async def test_a_refusal_and_an_absence_show_the_address_and_no_password(
    redis: RedisServer,
) -> None:
    refusing = RedisTransport(Secret(f"redis://me:pass-w0rd@127.0.0.1:{redis.port}/0"), "one")
    with pytest.raises(TransportUnavailable) as refused:
        await refusing.exchange(b"", ())
    absent = RedisTransport(Secret("unix:///nowhere/redis.sock?password=pass-w0rd"), "one")
    with pytest.raises(TransportUnavailable) as away:
        await absent.exchange(b"", ())
    await absent.leave()

    assert refusing.where == f"127.0.0.1:{redis.port}"
    assert absent.where == "/nowhere/redis.sock"
    assert "AuthenticationError" in str(refused.value)
    assert not any("pass-w0rd" in str(one.value) for one in (refused, away))


async def test_tls_and_a_password_are_what_the_address_says(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with running_redis(*authority.options("no"), "--requirepass", "pass-w0rd") as server:
        address = f"127.0.0.1:{server.port}/0?ssl_ca_certs={authority.ca}"
        one = RedisTransport(Secret(f"rediss://:pass-w0rd@{address}"), "one")
        wrong = RedisTransport(Secret(f"rediss://:wrong@{address}"), "two")

        notices = await one.exchange(b"first", ())
        with pytest.raises(TransportUnavailable):
            await wrong.exchange(b"second", ())
        await one.leave()

    assert notices == {b"one": b"first"}


async def test_a_server_that_requires_certificates_gets_one_and_says_why_it_refuses(
    tmp_path: Path,
) -> None:
    """And a server whose authority is unknown is not spoken to."""
    known = Authority(tmp_path)
    refused: dict[str, str] = {}
    with running_redis(*known.options("yes")) as server:

        def via(ca: Path, own: Path | None) -> RedisTransport:
            mine = "" if own is None else f"&ssl_certfile={own}&ssl_keyfile={own}"
            address = f"rediss://127.0.0.1:{server.port}/0?ssl_ca_certs={ca}{mine}"
            return RedisTransport(Secret(address), "one")

        one = via(known.ca, known.client)
        notices = await one.exchange(b"first", ())
        script = ("EVAL", "return redis.call('get', KEYS[1])", "1", "absent")
        answers = await one.run([script])
        await one.leave()
        for name, other in {
            "no certificate": via(known.ca, None),
            "another authority's": via(known.ca, known.stranger),
            "an unknown server": via(known.other_ca, known.client),
            "no such file": via(tmp_path / "absent.pem", known.client),
        }.items():
            with pytest.raises(TransportUnavailable) as caught:
                await other.exchange(b"second", ())
            refused[name] = str(caught.value)
        cleartext = RedisTransport(Secret(f"redis://127.0.0.1:{server.port}/0"), "one")
        with pytest.raises(TransportUnavailable):
            await cleartext.exchange(b"second", ())

    assert (notices, answers) == ({b"one": b"first"}, [None])
    assert "the server's certificate is not accepted" in refused["an unknown server"]
    assert "ssl_certfile" in refused["no certificate"]
    assert "ssl_certfile" in refused["another authority's"]
    assert not any(str(tmp_path) in one for one in refused.values())


def test_missing_files_of_an_address_are_named_by_the_check(tmp_path: Path) -> None:
    absent = tmp_path / "absent.pem"
    url = f"rediss://me:pass-w0rd@x/0?ssl_ca_certs={absent}&ssl_certfile={absent}"

    found = faults(f"{GOOD}\nstore: {{redis_url: '{url}'}}")

    assert [one.partition(":")[0] for one in found] == ["store.redis_url"] * 2
    assert "ssl_certfile: no such file" in found[1]
    assert "pass-w0rd" not in str(found)


@pytest.mark.parametrize("steps", range(16))
async def test_a_task_that_is_cancelled_ends_at_whatever_step_of_a_round_it_is(
    steps: int, redis: RedisServer
) -> None:
    transport = RedisTransport(Secret(redis.url), "cancelled")
    await transport.run([("PING",)])

    async def rounds() -> None:
        while True:
            await transport.run([("PING",)])

    task = asyncio.create_task(rounds())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    ended, _ = await asyncio.wait([task], timeout=60.0)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.01)
    await transport.leave()

    assert ended
