"""Names: what a DNS server that lies, fails or is silent costs those who use a name."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Generator

import dns.rcode
import pytest

from strowger_gateway.gateway.platform.names.look_up import Found
from strowger_gateway.gateway.platform.names.names import (
    ABSENT_S,
    DENIED_S,
    FAILED_S,
    FRESH_S,
    STALE_S,
    Names,
)
from tests.gateway.backends.discovery.dns_server import DnsServer, running_dns
from tests.gateway.platform.names.asking import Clock, through

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server() -> Generator[DnsServer]:
    with running_dns() as running:
        yield running


@pytest.fixture
def dns_server(server: DnsServer) -> DnsServer:
    server.records = {("api.test.", "A"): ["192.0.2.1"]}
    server.rcodes, server.silent, server.asked = {}, set(), []
    return server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def names(dns_server: DnsServer, clock: Clock) -> Names:
    return Names(through(dns_server), clock=clock)


def hosts(found: Found) -> list[str]:
    return [str(address[0]) for _, address in found]


async def test_users_of_a_name_share_one_look_up_and_its_answer(
    names: Names, dns_server: DnsServer
) -> None:
    found = await asyncio.gather(*[names.addresses("api.test", 443) for _ in range(50)])

    assert found == [[(socket.AF_INET, ("192.0.2.1", 443))]] * 50
    assert await names.addresses("API.test", 80) == [(socket.AF_INET, ("192.0.2.1", 80))]
    assert len(dns_server.asked) == 1


async def test_a_name_without_an_answer_holds_up_neither_other_names_nor_numbers() -> None:
    stuck = threading.Event()

    def look_up(host: str) -> Found:
        if host.startswith("stuck"):
            stuck.wait(30)
        return [(socket.AF_INET, ("192.0.2.7", 0))]

    names = Names(look_up)
    waiting = [
        asyncio.ensure_future(names.addresses(f"stuck{number}.test", 1)) for number in range(40)
    ]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(20):
            assert hosts(await names.addresses("fine.test", 1)) == ["192.0.2.7"]
            assert hosts(await names.addresses("127.0.0.1", 1)) == ["127.0.0.1"]
            assert hosts(await names.addresses("::1", 1)) == ["::1"]
        assert not any(one.done() for one in waiting)
    finally:
        stuck.set()
        await asyncio.gather(*waiting)


async def test_users_who_give_up_leave_one_look_up_in_flight_and_its_answer_to_others() -> None:
    asked: list[str] = []
    stuck = threading.Event()

    def look_up(host: str) -> Found:
        asked.append(host)
        stuck.wait(30)
        return [(socket.AF_INET, ("192.0.2.7", 0))]

    names = Names(look_up)
    for _ in range(5):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(names.addresses("slow.test", 1), 0.01)
    later = asyncio.ensure_future(names.addresses("slow.test", 1))
    stuck.set()

    assert hosts(await later) == ["192.0.2.7"]
    assert asked == ["slow.test"]


async def test_an_answer_is_renewed_ahead_of_its_end_and_nobody_waits(
    names: Names, dns_server: DnsServer, clock: Clock
) -> None:
    await names.addresses("api.test", 1)
    dns_server.records["api.test.", "A"] = ["192.0.2.2"]
    clock.ahead += FRESH_S - 1

    assert hosts(await names.addresses("api.test", 1)) == ["192.0.2.1"]

    await settled(names)
    assert hosts(await names.addresses("api.test", 1)) == ["192.0.2.2"]
    assert len(dns_server.asked) == 2


async def test_a_name_that_was_not_used_for_a_while_is_looked_up_before_its_next_use(
    names: Names, dns_server: DnsServer, clock: Clock
) -> None:
    await names.addresses("api.test", 1)
    dns_server.records["api.test.", "A"] = ["192.0.2.2"]
    clock.ahead += FRESH_S + 1

    assert hosts(await names.addresses("api.test", 1)) == ["192.0.2.2"]


async def test_addresses_in_doubt_are_looked_up_again_before_their_next_use(
    names: Names, dns_server: DnsServer, clock: Clock
) -> None:
    await names.addresses("api.test", 1)
    dns_server.records["api.test.", "A"] = ["192.0.2.2"]
    clock.ahead += 1.5

    names.doubt("api.test")

    assert hosts(await names.addresses("api.test", 1)) == ["192.0.2.2"]


async def test_the_last_addresses_are_used_while_the_dns_fails_and_the_log_says_so_once(
    names: Names, dns_server: DnsServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await names.addresses("api.test", 1)
    dns_server.rcodes["A"] = dns.rcode.SERVFAIL
    with caplog.at_level(logging.INFO, "strowger.names"):
        for _ in range(4):
            clock.ahead += FRESH_S + 1
            assert hosts(await names.addresses("api.test", 1)) == ["192.0.2.1"]
            await settled(names)

        dns_server.rcodes = {}
        clock.ahead += FRESH_S + 1
        await names.addresses("api.test", 1)
        await settled(names)

    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert texts[0].startswith("DNS: no address for api.test: Temporary failure")
    assert texts[1] == "DNS: api.test is resolved again"


async def test_a_silent_dns_server_costs_users_of_a_known_name_half_a_second_at_most_once(
    names: Names, dns_server: DnsServer, clock: Clock
) -> None:
    await names.addresses("api.test", 1)
    dns_server.silent.add("A")
    clock.ahead += FRESH_S + 1

    begun = time.monotonic()
    assert hosts(await names.addresses("api.test", 1)) == ["192.0.2.1"]
    clock.ahead += 1.0  # the look-up in flight is older than what users wait for
    for _ in range(100):
        assert hosts(await names.addresses("api.test", 1)) == ["192.0.2.1"]

    assert time.monotonic() - begun < 2.5  # the look-up itself ends after 3 s
    assert len(dns_server.asked) == 2


async def test_addresses_are_forgotten_an_hour_after_the_dns_last_answered(
    names: Names, dns_server: DnsServer, clock: Clock
) -> None:
    await names.addresses("api.test", 1)
    dns_server.rcodes["A"] = dns.rcode.SERVFAIL
    clock.ahead += STALE_S + 1

    with pytest.raises(socket.gaierror, match="Temporary failure"):
        await names.addresses("api.test", 1)


async def test_addresses_that_the_dns_denies_are_used_for_five_minutes(
    names: Names, dns_server: DnsServer, clock: Clock
) -> None:
    """A zone that is empty by mistake looks like one whose owner has left."""
    await names.addresses("api.test", 1)
    dns_server.records = {}
    clock.ahead += FRESH_S + 1
    assert hosts(await names.addresses("api.test", 1)) == ["192.0.2.1"]

    clock.ahead += DENIED_S
    with pytest.raises(socket.gaierror, match="not known"):
        await names.addresses("api.test", 1)


@pytest.mark.parametrize(("rcode", "kept_s"), [("SERVFAIL", FAILED_S), ("NXDOMAIN", ABSENT_S)])
async def test_a_failure_is_the_answer_for_a_moment(
    names: Names, dns_server: DnsServer, clock: Clock, rcode: str, kept_s: float
) -> None:
    dns_server.rcodes["A"] = dns.rcode.from_text(rcode)
    for _ in range(20):
        with pytest.raises(socket.gaierror):
            await names.addresses("api.test", 1)
    assert len(dns_server.asked) == 1

    dns_server.rcodes = {}
    clock.ahead += kept_s
    assert hosts(await names.addresses("api.test", 1)) == ["192.0.2.1"]


async def test_look_ups_have_a_limit_beyond_which_they_fail_and_known_names_go_on() -> None:
    stuck = threading.Event()

    def look_up(host: str) -> Found:
        if host != "known.test":
            stuck.wait(30)
        return [(socket.AF_INET, ("192.0.2.7", 0))]

    names = Names(look_up, most_in_flight=2)
    await names.addresses("known.test", 1)
    waiting = [
        asyncio.ensure_future(names.addresses(f"stuck{number}.test", 1)) for number in range(2)
    ]
    await asyncio.sleep(0)
    try:
        with pytest.raises(socket.gaierror, match="2 other names are being looked up"):
            await names.addresses("third.test", 1)
        assert hosts(await names.addresses("known.test", 1)) == ["192.0.2.7"]
    finally:
        stuck.set()
        await asyncio.gather(*waiting)


async def test_names_beyond_the_limit_are_forgotten_and_the_last_used_are_kept() -> None:
    asked: list[str] = []

    def look_up(host: str) -> Found:
        asked.append(host)
        return [(socket.AF_INET, ("192.0.2.7", 0))]

    names = Names(look_up, most_kept=10)
    for number in range(100):
        await names.addresses("vendor.test", 1)
        await names.addresses(f"n{number}.test", 1)

    assert asked.count("vendor.test") == 1
    assert len(asked) == 101


@pytest.mark.parametrize("host", ["x" * 64 + ".test", "a..b", "\udcff.test"])
async def test_what_is_not_a_name_is_an_error_of_the_resolver(host: str) -> None:
    with pytest.raises(socket.gaierror):
        await Names().addresses(host, 1)


async def test_a_scope_is_part_of_a_number() -> None:
    found = await Names(unasked).addresses("fe80::1%1", 443)

    assert found == [(socket.AF_INET6, ("fe80::1", 443, 0, 1))]


async def test_localhost_is_known_without_a_dns_server() -> None:
    assert set(hosts(await Names().addresses("localhost", 1))) <= {"127.0.0.1", "::1"}


async def test_event_loops_in_turn_and_at_once_share_what_is_known(clock: Clock) -> None:
    asked: list[str] = []

    def look_up(host: str) -> Found:
        asked.append(host)
        time.sleep(0.05)
        return [(socket.AF_INET, ("192.0.2.7", 0))]

    names = Names(look_up, clock=clock)

    def run() -> list[str]:
        return hosts(asyncio.run(names.addresses("api.test", 1)))

    assert await asyncio.gather(*[asyncio.to_thread(run) for _ in range(4)]) == [["192.0.2.7"]] * 4
    assert asked == ["api.test"]


def unasked(host: str) -> Found:
    raise AssertionError(f"{host} was looked up")


async def settled(names: Names) -> None:
    """Wait until no look-up is in flight."""
    async with asyncio.timeout(30):
        while names.in_flight:  # noqa: ASYNC110  its thread announces nothing to the test
            await asyncio.sleep(0.002)
