"""Whether a form was sent from a page of the gateway's own, and not by some other site."""

from collections.abc import Iterable
from urllib.parse import urlsplit


def from_here(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """By `Sec-Fetch-Site`, or by `Origin` against `Host`; what sends neither is no browser.

    https://www.w3.org/TR/fetch-metadata/
    """
    sent = {name: value.decode("latin-1") for name, value in headers}
    site = sent.get(b"sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = sent.get(b"origin")
    return origin is None or urlsplit(origin).netloc == sent.get(b"host")
