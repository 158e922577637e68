"""OAuth 2.0 client credentials: a service's own id and secret for a token that lasts an hour.

https://www.rfc-editor.org/rfc/rfc6749#section-4.4
"""

from base64 import b64encode
from collections.abc import Callable
from typing import Literal
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
from msgspec import Struct

from strowger_gateway.adapters.base import Outbound, unauthenticated
from strowger_gateway.adapters.error_message import problem, redacted
from strowger_gateway.adapters.retry_after import retry_after
from strowger_gateway.gateway.backends.upstream.credentials.auto_refresh import (
    AutoRefresh,
    ExpiringValue,
)
from strowger_gateway.gateway.backends.upstream.credentials.base import Headers
from strowger_gateway.gateway.backends.upstream.credentials.refresh_schedule import (
    ASSUMED_LIFETIME_S,
)
from strowger_gateway.gateway.backends.upstream.transport import Reply, Transport
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from strowger_gateway.schemas.secret import Secret

FETCH_S = 30.0
"""Seconds for one call of the token endpoint, including connecting."""

BODY_BYTES = 64 * 1024
OUR_FAULT = frozenset({400, 401, 403, 404, 405})
"""Statuses that retries cannot fix; a token endpoint answers 400 for an unknown client."""


class Grant(Struct, frozen=True, kw_only=True):
    """The token request.

    url:  the token endpoint. scope: "" leaves it to the endpoint.
    auth: where the client's id and secret go: in an `authorization` header or in the form.
    """

    url: str
    client_id: str
    client_secret: Secret
    scope: str = ""
    auth: Literal["basic", "body"] = "basic"


class _Answer(Struct, frozen=True, kw_only=True):
    """RFC 6749, 5.1; some endpoints send the seconds as text."""

    access_token: str
    token_type: str = "bearer"
    expires_in: float | str | None = None


class _Fault(Struct, frozen=True, kw_only=True):
    """RFC 6749, 5.2."""

    error: str
    error_description: str | None = None


_answer = msgspec.json.Decoder(_Answer)
_fault = msgspec.json.Decoder(_Fault)


class ClientCredentials:
    """See Credentials. Owns `transport`, which connects to the token endpoint's origin.

    upstream: the provider's configured name. connect_s: time limit for connecting.
    lapsed:   see TokenEndpoint.
    """

    def __init__(
        self,
        grant: Grant,
        transport: Transport,
        *,
        upstream: str,
        connect_s: float,
        lapsed: Callable[[int, bytes], bool] = unauthenticated,
    ) -> None:
        self._transport = transport
        self._upstream = upstream
        self._connect_s = connect_s
        self._lapsed = lapsed
        self._outbound = _outbound(grant)
        self._secrets = _forms(grant)
        self._token: AutoRefresh[Secret] = AutoRefresh(self._fetch, upstream=upstream)

    def __repr__(self) -> str:
        return f"ClientCredentials({self._upstream!r})"

    async def headers(self, outbound: Outbound, *, by: float) -> Headers:
        """See Credentials."""
        token = await self._token.get(by)
        return (("authorization", f"Bearer {token.reveal()}"),)

    def rejected(self, headers: Headers, status: int, body: bytes) -> bool:
        """See Credentials."""
        return self._lapsed(status, body) and any(
            self._token.reject(Secret(value.removeprefix("Bearer ")))
            for name, value in headers
            if name == "authorization"
        )

    async def aclose(self) -> None:
        """See Credentials."""
        await self._token.aclose()
        await self._transport.aclose()

    async def _fetch(self) -> ExpiringValue[Secret]:
        started = now()
        over = started + FETCH_S
        try:
            reply = await self._transport.exchange(
                self._outbound, connect_by=started + self._connect_s, head_by=over
            )
            try:
                body = await reply.body(over, BODY_BYTES)
            finally:
                await reply.aclose()
        except UpstreamError as exc:
            reason, detail = (
                f"no access token: {text.removeprefix(f'{exc.upstream}: ')}"
                for text in (exc.message, exc.logged)
            )
            raise UpstreamUnreachable(reason, upstream=self._upstream, detail=detail) from exc
        if reply.status != 200:
            raise self._refusal(reply, body)
        return self._lease(body)

    def _lease(self, body: bytes) -> ExpiringValue[Secret]:
        try:
            answer = _answer.decode(body)
            seconds = ASSUMED_LIFETIME_S if answer.expires_in is None else float(answer.expires_in)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as exc:
            raise self._unusable("the response is not that of a token endpoint") from exc
        if answer.token_type.lower() != "bearer":
            raise self._unusable("the token is not a bearer token")
        if not answer.access_token.isascii() or not answer.access_token.isprintable():
            raise self._unusable("the token contains characters that cannot be sent")
        if not answer.access_token or not seconds > 0:
            raise self._unusable("the token is empty, or has already expired")
        return ExpiringValue(value=Secret(answer.access_token), lifetime_s=seconds)

    def _unusable(self, reason: str) -> UpstreamRefused:
        return UpstreamRefused(
            f"no access token: {reason}; check oauth.token_url", upstream=self._upstream
        )

    def _refusal(self, reply: Reply, body: bytes) -> UpstreamError:
        reason = redacted(_reason(body), self._secrets)
        status = f"no access token: the token endpoint answered {reply.status}"
        text = f"{status}: {reason}" if reason else status
        if reply.status in OUR_FAULT:
            return UpstreamRefused(text, upstream=self._upstream)
        if 300 <= reply.status < 400:
            return UpstreamRefused(f"{text}; check oauth.token_url", upstream=self._upstream)
        wait = retry_after(reply.headers)
        return UpstreamUnreachable(text, upstream=self._upstream, retry_after=wait)


def _outbound(grant: Grant) -> Outbound:
    """Build the request, which is always the same. RFC 6749, 2.3.1: id and secret are
    form-encoded before base64."""
    parts = urlsplit(grant.url)
    form = {"grant_type": "client_credentials"}
    if grant.scope:
        form["scope"] = grant.scope
    headers: Headers = (
        ("content-type", "application/x-www-form-urlencoded"),
        ("accept", "application/json"),
    )
    if grant.auth == "body":
        form |= {"client_id": grant.client_id, "client_secret": grant.client_secret.reveal()}
    else:
        headers = (*headers, ("authorization", f"Basic {_basic(grant)}"))
    return Outbound(
        target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        headers=headers,
        body=urlencode(form).encode(),
    )


def _basic(grant: Grant) -> str:
    pair = f"{quote_plus(grant.client_id)}:{quote_plus(grant.client_secret.reveal())}"
    return b64encode(pair.encode()).decode()


def _forms(grant: Grant) -> tuple[str, ...]:
    """Return every form of the secret on the wire, longest first."""
    secret = grant.client_secret.reveal()
    return (_basic(grant), quote_plus(secret), secret)


def _reason(body: bytes) -> str:
    """Return RFC 6749's two fields, or any other message of the endpoint."""
    try:
        fault = _fault.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return problem(body).message
    return f"{fault.error}: {fault.error_description}" if fault.error_description else fault.error
