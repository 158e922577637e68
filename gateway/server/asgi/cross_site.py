"""Reject requests to an open gateway that web pages of other sites send.

Without keys, a gateway on loopback is open to every program on its machine, and a browser runs
other people's programs. A page can reach it in two ways: with a host name that resolves to
127.0.0.1 (DNS rebinding), visible in `Host`, and with a form or script that posts across sites,
visible in `Sec-Fetch-Site` or `Origin`. https://www.w3.org/TR/fetch-metadata/
"""

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from strowger_gateway.schemas.errors import Forbidden

if TYPE_CHECKING:  # the leader process loads this file and serves no requests
    from litestar.types import HTTPScope

_READING: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_KEPT: Final = 64


class CrossSiteGuard:
    """Check the Host of every request, and the origin of requests that change or cost something."""

    def __init__(self, names: Iterable[str], origins: Iterable[str], *, pages: bool) -> None:
        """names: allowed hosts, without port, besides those of loopback.

        origins: origins whose pages may call the gateway; "*" allows all.
        pages:   reject pages of other sites, because the gateway requires no key.
        """
        self._names = frozenset(name.lower().strip("[]") for name in names)
        self._origins = frozenset(origin.rstrip("/").encode() for origin in origins)
        self._pages = pages and b"*" not in self._origins
        self._known: set[bytes] = set()

    def check(self, scope: "HTTPScope") -> None:
        """Raise Forbidden; the message names the setting that allows the request."""
        host = origin = site = b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site":
                site = value
        if host not in self._known:
            self._check_host(host)
        if (origin or site) and self._pages and scope["method"] not in _READING:
            self._check_page(host, origin, site)

    def _check_host(self, host: bytes) -> None:
        name = host.decode("latin-1").lower()
        end, skip = ("]", 1) if name.startswith("[") else (":", 0)
        name = name[skip:].partition(end)[0]
        if name and name not in self._names and not _is_loopback(name.rstrip(".")):
            raise Forbidden(
                f"host: {name!r} is not an allowed host name of this gateway; server.allowed_hosts "
                "lists the names allowed besides localhost",
                code="host_not_allowed",
            )
        if len(self._known) < _KEPT:
            self._known.add(host)

    def _check_page(self, host: bytes, origin: bytes, site: bytes) -> None:
        here = origin.partition(b"://")[2] == host if origin else True
        if site:
            here = site in (b"same-origin", b"none")
        if not here and origin not in self._origins:
            raise Forbidden(
                "a page of another site sent this request; server.cors.allow_origins lists the "
                "origins whose pages may call",
                code="cross_site",
            )


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
