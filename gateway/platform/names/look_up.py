"""Look a name up in the system's resolver. It blocks, for half a minute if no DNS server answers.

The system's resolver, not one of our own: it alone knows /etc/hosts, nsswitch.conf and its plug-ins
(mDNS, systemd-resolved, LDAP), search domains, changes of resolv.conf, and the order of RFC 6724.
docs/adr/0075.
"""

import errno
import socket
from collections.abc import Callable, Sequence
from typing import Final

SocketAddress = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""An address as socket.getaddrinfo returns it."""

Found = Sequence[tuple[int, SocketAddress]]
"""Addresses with their families, in the order in which to try them."""

LookUp = Callable[[str], Found]
"""Returns the addresses of a name, with any port. Blocks. Raises OSError."""

_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

ABSENT: Final = frozenset(
    code for name in ("EAI_NONAME", "EAI_NODATA") if (code := getattr(socket, name, None))
)
"""Errors of socket.gaierror with which a DNS server itself denies that the name has addresses."""


def look_up(host: str) -> Found:
    """Return the addresses of a name, from the system's resolver.

    Raises OSError: socket.gaierror, or what keeps this machine from opening a socket. Then the
    resolver could not read /etc/hosts nor ask a server, which it calls an unknown name.
    """
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except socket.gaierror:
        shortage = _shortage()
        if shortage is not None:
            raise shortage from None
        raise
    except UnicodeError as exc:  # a label of over 63 characters, or none between two dots
        raise socket.gaierror(socket.EAI_NONAME, f"not a host name: {exc}") from exc
    return tuple((family, address) for family, _, _, _, address in found)


def _shortage() -> OSError | None:
    try:
        socket.socket().close()
    except OSError as exc:
        return exc if exc.errno in _SHORTAGES else None
    return None


def number(host: str) -> Found | None:
    """Return the address that `host` is, without a look-up; `None` if it is a name.

    A scope id, as in fe80::1%eth0, becomes the number of its interface.
    """
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None
    return tuple((family, address) for family, _, _, _, address in found)


def with_port(found: Found, port: int) -> Found:
    """Return the same addresses with a port."""
    return [(family, (address[0], port, *address[2:])) for family, address in found]  # pyright: ignore[reportReturnType]
