"""Check that a form was submitted from one of the gateway's own pages."""

from collections.abc import Iterable
from urllib.parse import urlsplit


def from_here(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Check `Sec-Fetch-Site`, or else `Origin` against `Host`; clients without either pass.

    Browsers always send one of them with a form.

    https://www.w3.org/TR/fetch-metadata/
    """
    sent = {name: value.decode("latin-1") for name, value in headers}
    site = sent.get(b"sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = sent.get(b"origin")
    return origin is None or urlsplit(origin).netloc == sent.get(b"host")
