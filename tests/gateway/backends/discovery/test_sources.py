"""Sources: what a look-up finds in the DNS and in a file, and how it fails."""

import json
from collections.abc import Iterator
from pathlib import Path

import dns.rcode
import pytest

from strowger_gateway.gateway.backends.discovery.setup import source_of
from strowger_gateway.gateway.backends.discovery.source import AddressSource, HostPort, LookUpFailed
from strowger_gateway.gateway.config.dns_server import server_of
from strowger_gateway.gateway.config.schema.discovery import Discover
from tests.gateway.backends.discovery.dns_server import DnsServer, running_dns

pytestmark = pytest.mark.anyio
NAME = "pool.test."


@pytest.fixture
def server() -> Iterator[DnsServer]:
    with running_dns() as running:
        yield running


def pool(server: DnsServer, name: str = "pool.test", port: int | None = 8000) -> AddressSource:
    return source_of(Discover(dns=name, port=port, server=server.address))


def texts(endpoints: tuple[HostPort, ...]) -> list[str]:
    return sorted(one.text for one in endpoints)


async def test_a_name_stands_for_all_its_addresses_of_both_families(server: DnsServer) -> None:
    server.records = {(NAME, "A"): ["10.0.0.1", "10.0.0.2"], (NAME, "AAAA"): ["fd00::1"]}
    server.ttl = 7

    found = await pool(server).look_up()

    assert texts(found.endpoints) == ["10.0.0.1:8000", "10.0.0.2:8000", "[fd00::1]:8000"]
    assert found.valid_s == 7


async def test_srv_records_bring_their_ports_and_the_first_priority_alone(
    server: DnsServer,
) -> None:
    server.records = {
        ("_http._tcp.pool.test.", "SRV"): [
            "10 0 8001 a.test.",
            "10 5 8002 b.test.",
            "20 0 8003 spare.test.",
        ],
        ("a.test.", "A"): ["10.0.0.1"],
        ("b.test.", "A"): ["10.0.0.2"],
        ("spare.test.", "A"): ["10.0.0.3"],
    }

    found = await pool(server, "_http._tcp.pool.test", None).look_up()

    assert texts(found.endpoints) == ["10.0.0.1:8001", "10.0.0.2:8002"]


async def test_a_service_that_says_it_is_not_there_has_no_replicas(server: DnsServer) -> None:
    server.records = {("_http._tcp.pool.test.", "SRV"): ["0 0 0 ."]}

    found = await pool(server, "_http._tcp.pool.test", None).look_up()

    assert found.endpoints == ()


async def test_an_answer_too_long_for_a_datagram_comes_over_tcp(server: DnsServer) -> None:
    server.records = {(NAME, "A"): [f"10.0.1.{last}" for last in range(1, 65)]}

    found = await pool(server).look_up()

    assert len(found.endpoints) == 64
    assert (NAME, "A", "tcp") in server.asked


async def test_a_name_that_does_not_exist_has_no_replicas(server: DnsServer) -> None:
    assert (await pool(server).look_up()).endpoints == ()


async def test_a_server_in_trouble_is_a_failure_and_not_an_empty_answer(
    server: DnsServer,
) -> None:
    server.records = {(NAME, "A"): ["10.0.0.1"]}
    server.rcodes = {"A": dns.rcode.SERVFAIL, "AAAA": dns.rcode.SERVFAIL}

    with pytest.raises(LookUpFailed, match=r"A records of pool\.test"):
        await pool(server).look_up()


async def test_one_family_alone_answers_if_the_other_was_never_there(server: DnsServer) -> None:
    server.records = {(NAME, "A"): ["10.0.0.1"]}
    server.rcodes = {"AAAA": dns.rcode.SERVFAIL}

    found = await pool(server).look_up()

    assert texts(found.endpoints) == ["10.0.0.1:8000"]


async def test_replicas_of_a_family_that_fails_have_not_gone(server: DnsServer) -> None:
    server.records = {(NAME, "A"): ["10.0.0.1"], (NAME, "AAAA"): ["fd00::1"]}
    source = pool(server)
    await source.look_up()

    server.rcodes = {"AAAA": dns.rcode.SERVFAIL}

    with pytest.raises(LookUpFailed, match="AAAA"):
        await source.look_up()


async def test_addresses_of_metadata_services_and_groups_are_refused(server: DnsServer) -> None:
    server.records = {
        (NAME, "A"): ["169.254.169.254", "224.0.0.1", "0.0.0.0", "100.100.100.200", "10.0.0.1"],
        (NAME, "AAAA"): ["fe80::1", "ff02::1", "::", "::ffff:169.254.169.254", "fd00:ec2::254"],
    }

    found = await pool(server).look_up()

    assert texts(found.endpoints) == ["10.0.0.1:8000"]
    assert len(found.refused) == 9


async def test_a_file_lists_targets_as_prometheus_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.json"
    groups = [
        {"targets": ["10.0.0.1:8000", "[fd00::1]:8000"], "labels": {"zone": "a"}},
        {"targets": ["node-7.cluster:8000", "10.0.0.1:8000", "169.254.169.254:80"]},
    ]
    file.write_text(json.dumps(groups))

    found = await source_of(Discover(file=str(file))).look_up()

    assert texts(found.endpoints) == ["10.0.0.1:8000", "[fd00::1]:8000", "node-7.cluster:8000"]
    assert found.refused == ("169.254.169.254:80 is link-local, where metadata services are",)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[{", "not a list of targets"),
        ('{"targets": []}', "not a list of targets"),
        ('[{"targets": ["10.0.0.1"]}]', r"\[0\].targets\[0\] has no port"),
        ('[{"targets": ["10.0.0.1:0"]}]', "no port from 1 to 65535"),
        ('[{"targets": ["fd00::1:80"]}]', "write an IPv6 one as"),
        ('[{"targets": ["[fe80::1%eth0]:80"]}]', "write an IPv6 one as"),
        ('[{"targets": ["a b:80"]}]', "no valid host"),
        ('[{"targets": ["user@host:80"]}]', "no valid host"),
        (" " * 1_100_000, "over 1048576 bytes"),
        (None, "cannot be read"),
    ],
)
async def test_no_part_of_a_broken_file_is_used(
    tmp_path: Path, content: str | None, why: str
) -> None:
    file = tmp_path / "endpoints.json"
    if content is not None:
        file.write_text(content)

    with pytest.raises(LookUpFailed, match=why):
        await source_of(Discover(file=str(file))).look_up()


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("10.0.0.53", ("10.0.0.53", 53)),
        ("10.0.0.53:8600", ("10.0.0.53", 8600)),
        ("fd00::53", ("fd00::53", 53)),
        ("[fd00::53]:8600", ("fd00::53", 8600)),
        ("[fd00::53]", ("fd00::53", 53)),
    ],
)
def test_a_dns_server_is_an_address_with_an_optional_port(text: str, read: tuple[str, int]) -> None:
    assert server_of(text) == read
