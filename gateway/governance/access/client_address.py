"""Find the client's address: the connection's, or the one that trusted proxies report."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the leader process loads this file and serves no requests
    from litestar.types import HTTPScope, Scope

_Address = IPv4Address | IPv6Address
_MOST_HOPS = 32
_LONGEST = 64
"""Longest address in characters, with zone and port."""
_FOR = re.compile(r'(?:^|[;,])\s*for\s*=\s*("[^"]*"|[^;,\s]*)', re.IGNORECASE)
_WITH_PORT = re.compile(r"\[(?P<six>[^\]]*)\](:\d+)?|(?P<four>[0-9.]+)(:\d+)?")


class ClientAddresses:
    """Read client addresses. Without trusted proxies, headers are ignored."""

    def __init__(self, trusted: Sequence[str], *, shown: bool = True) -> None:
        """trusted: networks of proxies, for `ipaddress`. shown: False makes all addresses ""."""
        self._shown = shown
        self._trusted = tuple(map(ip_network, trusted))

    def of(self, scope: "HTTPScope") -> str:
        """Return the client's address; "" if addresses are hidden or the connection has none."""
        client = scope["client"]
        if not self._shown or client is None:
            return ""
        if not self._trusted:
            return client[0]
        return self._behind(client[0], scope["headers"])

    def address(self, scope: "Scope") -> str:
        """Return the client's address also where it is hidden; "" if the connection has none."""
        client = scope["client"]
        return "" if client is None else self._behind(client[0], scope["headers"])

    def trusts(self, host: str) -> bool:
        """Return whether this is the address of a trusted proxy."""
        address = _address(host)
        return address is not None and self._trusts(address)

    def _behind(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the rightmost hop that is not a trusted proxy.

        A proxy appends to one of the two headers and passes the other on as the client sent it. If
        they disagree, only the connection's own address is reliable.
        """
        address = _address(peer)
        if address is None or not self._trusts(address):
            return peer
        values: dict[bytes, list[str]] = {b"x-forwarded-for": [], b"forwarded": []}
        for name, value in headers:
            if name in values:
                values[name].append(value.decode("latin-1"))
        lists = (
            [",".join(values[b"x-forwarded-for"]).split(",")] if values[b"x-forwarded-for"] else []
        )
        if values[b"forwarded"]:
            lists.append([hop.strip('"') for hop in _FOR.findall(",".join(values[b"forwarded"]))])
        found = {self._rightmost(hops, address) for hops in lists}
        return str(found.pop()) if len(found) == 1 else peer

    def _rightmost(self, hops: Sequence[str], last: _Address) -> _Address:
        """Stop at the first unreadable hop: the proxy that wrote it is the last known address."""
        for hop in reversed(hops[-_MOST_HOPS:]):
            address = _address(hop)
            if address is None:
                return last
            last = address
            if not self._trusts(address):
                return last
        return last

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


def _address(text: str) -> _Address | None:
    """Parse with or without a port; an IPv4 address inside IPv6 (::ffff:…) becomes IPv4."""
    text = text.strip()
    return _parsed(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> _Address | None:
    found = _WITH_PORT.fullmatch(text)
    try:
        address = ip_address((found["six"] or found["four"]) if found else text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
