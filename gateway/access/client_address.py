"""From which address a request came: the connection's, or what trusted proxies say of it."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the process that leads loads this file, and answers nobody
    from litestar.types import HTTPScope

_Address = IPv4Address | IPv6Address
_MOST_HOPS = 32
_LONGEST = 64
"""Characters of an address with its zone and port."""
_FOR = re.compile(r'(?:^|[;,])\s*for\s*=\s*("[^"]*"|[^;,\s]*)', re.IGNORECASE)
_WITH_PORT = re.compile(r"\[(?P<six>[^\]]*)\](:\d+)?|(?P<four>[0-9.]+)(:\d+)?")


class ClientAddresses:
    """Reads addresses for the log. Without trusted proxies no header is looked at."""

    def __init__(self, trusted: Sequence[str], *, shown: bool = True) -> None:
        """trusted: networks of proxies, each as `ipaddress` reads it. shown: False: all are ""."""
        self._shown = shown
        self._trusted = tuple(map(ip_network, trusted))

    def of(self, scope: "HTTPScope") -> str:
        """The client's address; "" where it is not shown, or the connection has none."""
        client = scope["client"]
        if not self._shown or client is None:
            return ""
        if not self._trusted:
            return client[0]
        return self._behind(client[0], scope["headers"])

    def _behind(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The rightmost hop that is not a trusted proxy.

        A proxy appends to one of two headers, and passes the other on as the client sent it. Where
        they disagree, only the connection's own address is beyond doubt.
        """
        address = _address(peer)
        if address is None or not self._trusts(address):
            return peer
        said: dict[bytes, list[str]] = {b"x-forwarded-for": [], b"forwarded": []}
        for name, value in headers:
            if name in said:
                said[name].append(value.decode("latin-1"))
        lists = [",".join(said[b"x-forwarded-for"]).split(",")] if said[b"x-forwarded-for"] else []
        if said[b"forwarded"]:
            lists.append([hop.strip('"') for hop in _FOR.findall(",".join(said[b"forwarded"]))])
        found = {self._rightmost(hops, address) for hops in lists}
        return str(found.pop()) if len(found) == 1 else peer

    def _rightmost(self, hops: Sequence[str], last: _Address) -> _Address:
        """What cannot be read ends the chain: the proxy that wrote it is the last one known."""
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
    """With or without a port; an IPv4 address within IPv6 (::ffff:…) is the IPv4 address."""
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
