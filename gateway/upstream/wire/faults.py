"""What ends an exchange early, as errors that name the provider."""

from schemas.errors import UpstreamBroken, UpstreamError, UpstreamTimeout, UpstreamUnreachable


class StaleConnection(Exception):
    """The server never processed the request; send it again on a fresh connection."""


def late(upstream: str, *, begun: bool) -> UpstreamError:
    """begun: the head of the answer has arrived."""
    problem = "the answer stalled" if begun else "the answer did not begin in time"
    return UpstreamTimeout(problem, upstream=upstream)


def unsent(upstream: str, *, late: bool) -> UpstreamError:
    """Nothing was sent. late: the deadline had passed, else the connection was closed."""
    if late:
        return UpstreamTimeout("no time is left for an answer", upstream=upstream)
    return UpstreamUnreachable("closed the connection before the request", upstream=upstream)


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
