"""Read endpoints, and refuse addresses that no replica can have.

A replica gets the provider's key and the clients' prompts, so an answer that points to the
machine's metadata service, to a multicast group or to "this network" is a fault or an attack.
Private and loopback addresses are where replicas are, and are accepted, as in `base_url`.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from strowger_gateway.gateway.backends.discovery.source import HostPort

PLATFORM: Final = frozenset(
    map(
        ip_address,
        (
            "100.100.100.200",  # Alibaba Cloud's metadata
            "168.63.129.16",  # Azure's platform address
            "192.0.0.192",  # Oracle Cloud's metadata
            "fd00:ec2::254",  # AWS's metadata
            "fd20:ce::254",  # Google Cloud's metadata
        ),
    )
)
"""Addresses of cloud platforms besides those that are link-local (169.254.0.0/16, fe80::/10)."""

MOST_HOST = 253
"""Characters of a host name. https://www.rfc-editor.org/rfc/rfc1035#section-2.3.4"""

_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


def refusal(host: str) -> str | None:
    """Return why no replica can have this IP address; `None` if one can, or if it is a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return _refusal(address if inner is None else inner)


def parse(text: str) -> HostPort:
    """Read HOST:PORT, with brackets around an IPv6 address. Raises ValueError with the reason."""
    host, colon, digits = text.rpartition(":")
    if not colon or not digits.isascii() or not digits.isdigit() or len(digits) > 5:
        raise ValueError("has no port; write it as HOST:PORT")
    port = int(digits)
    if not 0 < port < 65536:
        raise ValueError("has no port from 1 to 65535")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if bracketed or ":" in host:
        try:
            host = str(IPv6Address(host)) if bracketed else ""
        except ValueError:
            host = ""
        if not host or "%" in host:
            raise ValueError("is not an address; write an IPv6 one as [ADDRESS]:PORT")
    elif not host or len(host) > MOST_HOST or not _NAME.issuperset(host):
        raise ValueError("has no valid host")
    return HostPort(host=host, port=port)


def _refusal(address: IPv4Address | IPv6Address) -> str | None:
    if address.is_unspecified or address in PLATFORM:
        return "is not the address of a replica"
    if address.is_link_local:
        return "is link-local, where metadata services are"
    if address.is_multicast:
        return "is a multicast address"
    if isinstance(address, IPv4Address) and (address.is_reserved or address.packed[0] == 0):
        return "is reserved"
    return None
