"""No request can make the gateway connect to an address that is not public."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.backends.upstream.image_fetching.allowed_addresses import (
    AllowedAddresses,
    literal,
)

PUBLIC = AllowedAddresses()
INSIDE = (
    "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.1.2.3", "169.254.169.254",
    "172.16.0.1", "192.0.2.1", "192.168.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255",
    "::", "::1", "fc00::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2001:db8::1",
    "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a00:1", "2002:a00:1::",
    "192.0.0.192", "192.0.0.170", "168.63.129.16", "100.100.100.200", "192.88.99.1",
    "203.0.113.7", "fd00:ec2::254", "fd20:ce::254", "::ffff:168.63.129.16", "::10.0.0.1",
    "64:ff9b:1::a00:1", "64:ff9b::c000:c0", "2001::1", "2001:0:808:808::f5ff:fffe",
    "2001:20::1", "3fff::1", "5f00::1", "100::1", "4000::1", "2a00::200:5efe:a00:1",
)  # fmt: skip
OUTSIDE = ("1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::808:808")


@pytest.mark.parametrize("address", INSIDE)
def test_what_is_not_public_is_not_reached(address: str) -> None:
    assert PUBLIC.first([address]) is None


@pytest.mark.parametrize("address", OUTSIDE)
def test_what_is_public_is(address: str) -> None:
    assert PUBLIC.first([address]) == address


def test_the_first_public_address_of_a_host_is_taken() -> None:
    assert PUBLIC.first(["10.0.0.1", "1.1.1.1", "8.8.8.8"]) == "1.1.1.1"


def test_the_operator_can_allow_a_network() -> None:
    allowed = AllowedAddresses(["10.1.0.0/16", "fd00::/8"])

    assert allowed.first(["10.1.2.3"]) == "10.1.2.3"
    assert allowed.first(["::ffff:10.1.2.3"]) == "::ffff:10.1.2.3"
    assert allowed.first(["fd00::1"]) == "fd00::1"
    assert allowed.first(["10.2.2.3", "127.0.0.1"]) is None


def test_what_the_operator_denies_is_not_reached_though_it_is_public_or_allowed() -> None:
    allowed = AllowedAddresses(["10.0.0.0/8"], ["10.9.0.0/16", "8.8.8.0/24"])

    assert allowed.first(["10.1.0.1"]) == "10.1.0.1"
    assert allowed.first(["10.9.0.1", "8.8.8.8", "::ffff:8.8.8.8"]) is None


def test_only_plain_addresses_are_addresses() -> None:
    assert literal("10.0.0.1") == "10.0.0.1"
    assert literal("fe80::1%eth0") == "fe80::1"
    assert [literal(one) for one in ("0x7f.1", "2130706433", "010.0.0.1", "a.test")] == [None] * 4


@given(st.ip_addresses(v=4, network="0.0.0.0/0"))
def test_an_ipv4_address_hides_in_no_ipv6_address(address: IPv4Address) -> None:
    inside = int(address)
    disguises = (
        IPv6Address((0xFFFF << 32) | inside),
        IPv6Address((0x2002 << 112) | (inside << 80)),
        IPv6Address(int(IPv6Address("64:ff9b::")) | inside),
    )

    if not PUBLIC.holds(ip_address(address)):
        assert not any(PUBLIC.holds(disguise) for disguise in disguises)
