"""Which requests an open gateway takes: those that no web page of another site has sent.

Without keys, a gateway on loopback is open to every program on its machine, and a browser is one
that runs other people's programs. Two ways lead from a page to it: a name of theirs that resolves
to 127.0.0.1 (DNS rebinding), which shows in `Host`, and a form or a script that posts across
sites, which shows in `Sec-Fetch-Site` or `Origin`. https://www.w3.org/TR/fetch-metadata/
"""

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from schemas.errors import Forbidden

if TYPE_CHECKING:  # the process that leads loads this file, and answers nobody
    from litestar.types import HTTPScope

_READING: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_KEPT: Final = 64


class Door:
    """Checks the Host of every request, and the origin of those that change or cost something."""

    def __init__(self, names: Iterable[str], origins: Iterable[str], *, pages: bool) -> None:
        """names: hosts that are allowed, without port, besides those of loopback.

        origins: whose pages may call the gateway; "*" is every one.
        pages:   other sites' pages are refused, because no key is asked for.
        """
        self._names = frozenset(name.lower().strip("[]") for name in names)
        self._origins = frozenset(origin.rstrip("/").encode() for origin in origins)
        self._pages = pages and b"*" not in self._origins
        self._known: set[bytes] = set()

    def check(self, scope: "HTTPScope") -> None:
        """Raises Forbidden, whose message names the setting that would allow it."""
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
                f"host: this gateway is not reached as {name!r}; server.allowed_hosts lists the "
                "names that it takes besides localhost",
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
                "a page of another site sent this; server.cors.allow_origins lists the origins "
                "whose pages may call",
                code="cross_site",
            )


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
