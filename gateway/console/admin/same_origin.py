"""Check that a request was sent by one of the gateway's own pages."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from litestar.types import Scope

_SITE, _ORIGIN = b"sec-fetch-site", b"origin"


def surely_from_here(headers: Iterable[tuple[bytes, bytes]], public_url: str = "") -> bool:
    """As `from_here`, and refuse clients that send neither header.

    For changes that a cookie alone authorizes.
    """
    sent = {name for name, _ in headers}
    return bool({_SITE, _ORIGIN} & sent) and from_here(headers, public_url)


def from_here(headers: Iterable[tuple[bytes, bytes]], public_url: str = "") -> bool:
    """Check `Sec-Fetch-Site`, or else `Origin` against `Host`; clients without either pass.

    Browsers always send one of them with a form. public_url: of the gateway, if it is known: a
    proxy may have replaced `Host`.

    https://www.w3.org/TR/fetch-metadata/
    """
    sent = {name: value.decode("latin-1") for name, value in headers}
    site = sent.get(_SITE)
    if site is not None:
        return site in ("same-origin", "none")
    origin = sent.get(_ORIGIN)
    if origin is None or (public_url and origin == public_url.rstrip("/")):
        return True
    return urlsplit(origin).netloc == sent.get(b"host")


def over_tls(scope: Scope, public_url: str = "") -> bool:
    """Return whether the browser uses TLS, as far as is known.

    public_url: of the gateway, if it is known: a proxy may say nothing about TLS.
    """
    sent = dict(scope["headers"])
    if scope["scheme"] in ("https", "wss") or sent.get(b"x-forwarded-proto") == b"https":
        return True
    public = urlsplit(public_url)
    host = sent.get(b"host", b"").decode("latin-1")
    return public.scheme == "https" and public.netloc == host
