"""One TLS context for all clients of httpx in a process, which makes one for each.

Each takes 0.7 ms, also for a server without TLS, and the tests make some ten thousand clients.
"""

import os
import ssl
from collections.abc import Callable
from functools import cache, wraps

import httpx

VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Where a context takes its authorities from."""


@cache
def share_contexts() -> None:
    """Let clients share a context unless they bring their own."""
    for transport in (httpx.HTTPTransport, httpx.AsyncHTTPTransport):
        setattr(transport, "__init__", _sharing(transport.__init__))  # noqa: B010  it is not ours


def _sharing(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)
    def __init__(  # noqa: N807
        transport: object, verify: ssl.SSLContext | str | bool = True, *args: object, **more: object
    ) -> None:
        if isinstance(verify, bool) and not args and more.get("cert") is None:
            places = tuple(os.environ.get(name) for name in VARIABLES)
            verify = _context(verify, bool(more.get("trust_env", True)), places)
        init(transport, verify, *args, **more)

    return __init__


@cache
def _context(verify: bool, trust_env: bool, places: tuple[str | None, ...]) -> ssl.SSLContext:
    """Return the context of these settings. places: only so that each has its own."""
    return httpx.create_ssl_context(verify=verify, trust_env=trust_env)
