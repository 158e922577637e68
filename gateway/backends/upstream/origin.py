"""Parse the origin of a base URL: scheme, host and port."""

import re
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from strowger_gateway.schemas.errors import InvalidConfig

_PORTS: dict[str, int] = {"http": 80, "https": 443}
_LABEL = r"[A-Za-z0-9_-]{1,63}"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?|[A-Fa-f0-9.]*:[A-Fa-f0-9.:]*(%[A-Za-z0-9._-]+)?")


class Origin(Struct, frozen=True, kw_only=True):
    """One scheme, host and port.

    host:      for a resolver: ASCII (IDNA), an IPv6 address without its brackets, with its scope. A
               dot at its end keeps the resolver from search domains.
    authority: for the `host` header: brackets, and the port unless it is the scheme's default.
               Without a dot at the end of the name, which no server expects.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    authority: str

    @property
    def certified_name(self) -> str:
        """The name that the certificate of the server must have."""
        return self.host.partition("%")[0].removesuffix(".")


def origin_of(base_url: str, *, upstream: str) -> Origin:
    """Parse `base_url`. Raises InvalidConfig, without repeating anything that could be a secret."""
    if any(character <= " " for character in base_url):
        # urlsplit drops them silently
        raise InvalidConfig((f"{upstream}: base_url contains spaces or control characters.",))
    try:
        parts = urlsplit(base_url)
        scheme, name, port = parts.scheme, parts.hostname, parts.port
        host = name.encode("idna").decode() if name and not name.isascii() else name
    except ValueError as exc:
        raise InvalidConfig((f"{upstream}: base_url is not a URL: {exc}.",)) from exc
    if "@" in parts.netloc:
        raise InvalidConfig((f"{upstream}: base_url must not contain a password; use api_key.",))
    if scheme not in ("http", "https"):
        raise InvalidConfig((f"{upstream}: base_url must begin with http:// or https://.",))
    if host and ":" in host:
        host = host.replace("%25", "%", 1)  # of a scope: RFC 6874
    if not host or not _HOST.fullmatch(host):
        raise InvalidConfig((f"{upstream}: base_url has no valid host.",))
    port = _PORTS[scheme] if port is None else port
    bracketed = f"[{host.partition('%')[0]}]" if ":" in host else host.removesuffix(".")
    authority = bracketed if port == _PORTS[scheme] else f"{bracketed}:{port}"
    return Origin(scheme=scheme, host=host, port=port, authority=authority)


def addresses_of(base_url: str) -> tuple[str, ...]:
    """Return the forms in which texts repeat a provider's address, longest first.

    A host of one word is omitted, because it may be the provider's name or an ordinary word.
    """
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
    except ValueError:
        return ()
    found = {base_url.rstrip("/"), f"{parts.scheme}://{parts.netloc}"}
    if parts.netloc != host or "." in host:
        found.add(parts.netloc)
    if "." in host or ":" in host:
        found.add(host)
    return tuple(sorted(filter(None, found), key=len, reverse=True))
