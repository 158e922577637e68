"""The gateway's own queues and limits around an attempt: none of them is evidence about a backend.

Their errors are not `UpstreamError`, so that they move no circuit breaker, are not retried and ask
no other backend (docs/adr/0070). Their time is no latency of the backend.
"""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, cast

from strowger_gateway.gateway.backends.upstream.sending import Sending
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import Unavailable, UpstreamFailed

_SHORTAGES: Final = {
    errno.EMFILE: "file descriptors (ulimit -n)",
    errno.ENFILE: "file descriptors",
    errno.EADDRNOTAVAIL: "local ports for this address",
    errno.ENOBUFS: "memory for sockets",
    errno.ENOMEM: "memory for sockets",
}


class ConnectionsInUse(Unavailable):
    """No connection to a provider became free in time.

    status: 429 if the key holds as many as one key may, else 503.
    """

    code = "connections_in_use"

    def __init__(self, message: str, *, status: int = 503) -> None:
        super().__init__(message, retry_after=1)
        self.status = status


def in_use(upstream: str, *, at_bound: bool) -> ConnectionsInUse:
    """Return the error of a request that got no connection in time.

    at_bound: its key holds as many as one key may hold.
    """
    if at_bound:
        return ConnectionsInUse(
            f"{upstream}: the API key uses as many connections to this provider as one key may use "
            "(providers[].max_connections); wait until its other requests have ended",
            status=429,
        )
    return ConnectionsInUse(
        f"{upstream}: all connections to this provider are in use (providers[].max_connections)"
    )


def is_shortage(exc: OSError) -> bool:
    """Return whether this machine, not the other one, is why there is no connection."""
    return exc.errno in _SHORTAGES


def shortage_behind(exc: BaseException) -> OSError | None:
    """Return the shortage that caused a library's error, if one did."""
    seen: set[int] = set()
    found: list[BaseException | None] = [exc]
    while found:
        one = found.pop()
        if one is None or id(one) in seen:
            continue
        if isinstance(one, OSError) and is_shortage(one):
            return one
        seen.add(id(one))
        found += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            found += cast("BaseExceptionGroup[BaseException]", one).exceptions
    return None


def shortage(upstream: str, exc: OSError) -> ConnectionsInUse:
    """Return the error of a request for which the system opens no socket. exc: a shortage."""
    return ConnectionsInUse(
        f"{upstream}: the gateway's machine has no {_SHORTAGES[exc.errno or 0]} left"
    )


def closing(upstream: str) -> Unavailable:
    """Return the error of a request that comes while a provider's connections are being closed."""
    return Unavailable(f"{upstream}: its connections are being closed", retry_after=1)


def untranslatable(problem: str, upstream: str) -> UpstreamFailed:
    """Return the error of an answer that our tokenizer cannot express: what a request says may
    cause it, so that no circuit breaker counts it."""
    error = UpstreamFailed(problem, upstream=upstream)
    error.counts = False
    return error


@contextmanager
def own_wait(sending: Sending) -> Generator[None]:
    """Count the time in the block as the gateway's own, to the microsecond."""
    begun, sending.waiting = now(), True
    try:
        yield
    finally:
        sending.waiting = False
        sending.waited_s = round(sending.waited_s + now() - begun, 6)
