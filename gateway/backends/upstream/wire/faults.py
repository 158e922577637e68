"""What ends an exchange early, as errors that name the provider."""

from typing import Final

from strowger_gateway.schemas.errors import (
    UpstreamBroken,
    UpstreamError,
    UpstreamSilent,
    UpstreamTimeout,
    UpstreamUnreachable,
)


class StaleConnection(Exception):
    """The server never processed the request; send it again on a fresh connection.

    The connection served an exchange before, it was lost without one byte of an answer, and that
    happened within `STALE_S` of sending. Servers close idle connections at any time, and the close
    may cross a request on the way (https://www.rfc-editor.org/rfc/rfc9112#section-9.6); the peer's
    kernel then answers the request with a reset, and the server's program never sees the request.
    Such a reset arrives within a round trip. A later one, or one on a fresh connection, means that
    a server died over the request, which routing has to handle. The second connection is always
    fresh, so there is no third attempt.
    """


def late(upstream: str, *, begun: bool) -> UpstreamError:
    """begun: the head of the answer has arrived."""
    problem = "the answer stalled" if begun else "the answer did not begin in time"
    return UpstreamSilent(problem, upstream=upstream)


CLOSED_EARLY: Final = "closed the connection before the request"


def unsent(upstream: str, *, late: bool) -> UpstreamError:
    """Nothing was sent. late: the deadline had passed, else the connection was closed."""
    if late:
        error = UpstreamTimeout("no time is left for an answer", upstream=upstream)
        error.unread = True
        return error
    return closed_early(upstream, None)


def closed_early(upstream: str, cause: Exception | None) -> UpstreamError:
    """Nothing was sent: the connection was closed before.

    With TLS 1.3, `cause` is where a server says that it requires a client certificate: the
    client's handshake is over by then (https://www.rfc-editor.org/rfc/rfc8446#section-4.4.2.4).
    """
    reason = f": {cause}" if cause is not None else ""
    return UpstreamUnreachable(CLOSED_EARLY, upstream=upstream, detail=CLOSED_EARLY + reason)


def lost(upstream: str, cause: Exception | None, *, begun: bool) -> UpstreamError:
    """The connection was lost. begun: the head of the answer has arrived."""
    problem = f"closed the connection {'in the middle of its' if begun else 'without an'} answer"
    reason = f": {cause}" if cause is not None else ""
    return UpstreamBroken(problem, upstream=upstream, detail=problem + reason)


def too_long(upstream: str, most: int) -> UpstreamError:
    """most: bytes of a head, or of trailers."""
    problem = f"the answer's head or trailer is over {most} bytes"
    return UpstreamBroken(problem, upstream=upstream)


def not_http(upstream: str, cause: Exception) -> UpstreamError:
    return UpstreamBroken(f"the answer is not HTTP/1.1: {cause}", upstream=upstream)


def odd_status(upstream: str, status: int) -> UpstreamError:
    problem = f"answered with status {status:03}, which is not an HTTP status"
    return UpstreamBroken(problem, upstream=upstream)


def switched(upstream: str) -> UpstreamError:
    return UpstreamBroken("switched protocols without a request to do so", upstream=upstream)
