"""Decide which addresses image URLs may reach: public ones, and those that are allowed.

An IPv6 address that embeds an IPv4 one (mapped, 6to4, Teredo, NAT64, ISATAP) is as public as that
one. Nothing here opens a socket.
"""

from collections.abc import Iterable, Iterator
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from strowger_gateway.gateway.backends.upstream.image_fetching.special_networks import (
    COMPATIBLE,
    ISATAP,
    MAPPED,
    NAT64,
    NAT64_LOCAL,
    SIX_TO_FOUR,
    TEREDO,
    UNICAST,
    V4,
    V6,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LOW = 0xFFFFFFFF


class AllowedAddresses:
    """networks: allowed although they are not public, for example `10.1.0.0/16`.

    denied: never allowed; takes precedence over `networks` and public addresses.
    """

    def __init__(self, networks: Iterable[str] = (), denied: Iterable[str] = ()) -> None:
        self._networks: list[Network] = [ip_network(one) for one in networks]
        self._denied: list[Network] = [ip_network(one) for one in denied]

    def first(self, addresses: Iterable[str]) -> str | None:
        """Return the first allowed address, in its original spelling."""
        return next((one for one in addresses if self.holds(ip_address(_bare(one)))), None)

    def holds(self, address: Address) -> bool:
        known = [address, *_inside(address)]
        if _any_in(known, self._denied):
            return False
        if _any_in(known, self._networks):
            return True
        return all(_public(one) for one in known)


def literal(host: str) -> str | None:
    """Return the host if it is an IPv6 (RFC 4291) or dotted-decimal IPv4 address, else `None`.

    Other spellings of addresses (`0x7f.1`, `2130706433`) count as names; the addresses that a
    resolver returns for them are checked then.
    """
    try:
        return str(ip_address(_bare(host)))
    except ValueError:
        return None


def _bare(address: str) -> str:
    """Remove the scope of a link-local address."""
    return address.partition("%")[0]


def _any_in(addresses: Iterable[Address], networks: Iterable[Network]) -> bool:
    return any(one in network for one in addresses for network in networks)


def _public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not _any_in((address,), V4)
    if any(address in network for network in (MAPPED, NAT64, SIX_TO_FOUR, TEREDO)):
        return True  # as public as the embedded address, which is checked as well
    return address in UNICAST and not _any_in((address,), V6)


def _inside(address: Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address embeds or leads to."""
    if isinstance(address, IPv4Address):
        return
    bits = int(address)
    if any(address in network for network in (MAPPED, COMPATIBLE, NAT64, NAT64_LOCAL)):
        yield IPv4Address(bits & _LOW)
    elif address in SIX_TO_FOUR:
        yield IPv4Address(bits >> 80 & _LOW)
    elif address in TEREDO:
        yield IPv4Address(bits >> 64 & _LOW)
        yield IPv4Address(~bits & _LOW)
    if (bits >> 32 & _LOW) in ISATAP:
        yield IPv4Address(bits & _LOW)
