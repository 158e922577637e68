"""Which addresses a client may have the gateway connect to: public ones, and those allowed.

https://www.iana.org/assignments/iana-ipv6-special-registry; an IPv6 address that stands for an
IPv4 one (mapped, 6to4, Teredo, NAT64) is as public as that.
"""

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")


class Allowed:
    """networks: may be reached although they are not public, as `10.1.0.0/16`."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks: list[Network] = [ip_network(one) for one in networks]

    def first(self, addresses: Iterable[str]) -> str | None:
        """The first address that may be reached, as it was written."""
        return next((one for one in addresses if self.holds(ip_address(_bare(one)))), None)

    def holds(self, address: Address) -> bool:
        known = [_standing_for(address), address]
        if any(one in network for one in known for network in self._networks):
            return True
        return all(_public(one) for one in known)


def _bare(address: str) -> str:
    """Without the scope of a link-local address."""
    return address.partition("%")[0]


def _public(address: Address) -> bool:
    if address in _NAT64:
        return True  # as public as the IPv4 address inside, which is looked at too
    old = isinstance(address, IPv6Address) and address.is_site_local
    special = address.is_multicast or address.is_reserved or address.is_unspecified
    return address.is_global and not special and not old


def _standing_for(address: Address) -> Address:
    """The IPv4 address inside; the address itself where there is none."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour or address
