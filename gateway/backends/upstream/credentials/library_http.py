"""The HTTP calls of a vendor's library for one token: destination, time limits and failures.

The libraries use `requests`, and retry failed calls after pauses of their own. A failing service
is therefore reported as a connection error here, which ends the pauses of most; `AutoRefresh`
decides how often a token is retried.
"""

from collections.abc import Callable, Mapping

import requests
from msgspec import Struct
from requests.adapters import HTTPAdapter

from strowger_gateway.adapters.retry_after import retry_after
from strowger_gateway.gateway.config.schema.connection import Tls
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable

CALL_S = 10.0
"""Seconds for connecting, and for each silence of one call."""

ALL_CALLS_S = 25.0
"""Seconds for all calls of one token together."""

SHOWN = 300
"""Maximum characters of a library's message."""

_DOWN = frozenset({408, 429, *range(500, 600)})


class CallFailure(Struct, frozen=True, kw_only=True):
    """A failed call that may succeed later. wait: the service's retry-after, seconds."""

    reason: str
    wait: float | None = None


class LibraryCalls(HTTPAdapter):
    """The calls for one token. `failure` is that of the last call, `None` if it was answered.

    tls: of the provider. proxy: only for https; metadata services are local, and http.
    """

    def __init__(
        self,
        tls: Tls,
        *,
        proxy: str | None,
        connect_s: float,
        clock: Callable[[], float] = now,
    ) -> None:
        super().__init__()
        self._verify = (tls.ca_file or True) if tls.verify else False
        self._cert = _certificate(tls)
        self._proxies = {"https": proxy} if proxy is not None else dict[str, str]()
        self._connect_s = connect_s
        self._clock = clock
        self._until = clock() + ALL_CALLS_S
        self.failure: CallFailure | None = None

    def session(self) -> requests.Session:
        """Return a session that uses this adapter; environment proxies and .netrc are ignored."""
        session = requests.Session()
        session.trust_env = False
        session.mount("http://", self)
        session.mount("https://", self)
        return session

    def error(self, exc: Exception, *, upstream: str) -> UpstreamError:
        """Return the error for the library's failure: the service's, or else the operator's."""
        failure = self.failure
        if failure is None:
            return refused(library_reason(exc), upstream=upstream)
        return UpstreamUnreachable(
            f"no access token: {failure.reason}", upstream=upstream, retry_after=failure.wait
        )

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float, float] | tuple[float, None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """See HTTPAdapter. Uses our time limit, or the caller's if that is shorter."""
        left = self._until - self._clock()
        given = timeout if isinstance(timeout, int | float) else CALL_S
        call_s = min(CALL_S, left, given)
        try:
            if left <= 0:
                raise requests.Timeout("the calls took too long in total")
            reply = super().send(
                request,
                stream=stream,
                timeout=(min(call_s, self._connect_s), call_s),
                verify=self._verify,
                cert=self._cert,
                proxies=self._proxies,
            )
        except requests.RequestException as exc:
            self.failure = CallFailure(reason=_reason(exc))
            raise
        self.failure = None
        if reply.status_code in _DOWN:
            status, wait = reply.status_code, retry_after(_lower(reply.headers))
            reply.close()
            self.failure = CallFailure(reason=f"the service answered {status}", wait=wait)
            raise requests.ConnectionError(self.failure.reason)
        return reply


def _certificate(tls: Tls) -> str | tuple[str, str] | None:
    if tls.client_cert is not None and tls.client_key is not None:
        return (tls.client_cert, tls.client_key)
    return tls.client_cert


def refused(why: str, *, upstream: str) -> UpstreamRefused:
    """why: for the log; a library's reasons name files and addresses."""
    problem = "no access token"
    return UpstreamRefused(problem, upstream=upstream, detail=f"{problem}: {why}")


def library_reason(exc: Exception) -> str:
    """Return a library's reason on one line; of Google's, which have several parts, the first."""
    first: object = exc.args[0] if exc.args else exc
    return " ".join(str(first).split())[:SHOWN]


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _reason(exc: requests.RequestException) -> str:
    """Return the reason without addresses and queries, which may contain secrets."""
    match exc:
        case requests.exceptions.SSLError():
            return "the service's certificate is not trusted, or TLS failed for another reason"
        case requests.exceptions.ProxyError():
            return "the proxy cannot be used"
        case requests.Timeout():
            return "the service timed out"
        case _:
            return "the service is unreachable"
