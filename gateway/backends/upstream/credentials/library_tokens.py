"""Bearer tokens from a vendor's own library: cache them, renew them, and add them to requests."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from strowger_gateway.adapters.base import Outbound, unauthenticated
from strowger_gateway.gateway.backends.upstream.credentials.auto_refresh import (
    AutoRefresh,
    ExpiringValue,
)
from strowger_gateway.gateway.backends.upstream.credentials.base import Headers
from strowger_gateway.gateway.backends.upstream.credentials.blocking_calls import BlockingCalls
from strowger_gateway.schemas.errors import UpstreamRefused, UpstreamUnreachable
from strowger_gateway.schemas.secret import Secret

FETCH_S = 30.0
"""Seconds for one token, including all of the library's retries."""

PROJECT_HEADER = "x-goog-user-project"


class Bearer(Struct, frozen=True, kw_only=True):
    """project: the Google project for billing and quota; "" for the token's own."""

    token: Secret
    project: str = ""


class TokenSource(Protocol):
    """A source of tokens."""

    def bearer(self) -> ExpiringValue[Bearer]:
        """Return a new token. Blocks. Raises UpstreamRefused if the operator must act, and
        UpstreamUnreachable if a retry may succeed."""
        ...


class LibraryTokens:
    """See Credentials.

    upstream: the provider's configured name. lapsed: see TokenEndpoint.
    """

    def __init__(
        self,
        source: TokenSource,
        *,
        upstream: str,
        lapsed: Callable[[int, bytes], bool] = unauthenticated,
    ) -> None:
        self._source = source
        self._upstream = upstream
        self._lapsed = lapsed
        self._aside = BlockingCalls(FETCH_S)
        self._bearer: AutoRefresh[Bearer] = AutoRefresh(self._fetch, upstream=upstream)

    def __repr__(self) -> str:
        return f"LibraryTokens({self._upstream!r})"

    async def headers(self, outbound: Outbound, *, by: float) -> Headers:
        """See Credentials."""
        bearer = await self._bearer.get(by)
        headers: Headers = (("authorization", f"Bearer {bearer.token.reveal()}"),)
        return (*headers, (PROJECT_HEADER, bearer.project)) if bearer.project else headers

    def rejected(self, headers: Headers, status: int, body: bytes) -> bool:
        """See Credentials."""
        sent = dict(headers)
        token = sent.get("authorization", "").removeprefix("Bearer ")
        return self._lapsed(status, body) and self._bearer.reject(
            Bearer(token=Secret(token), project=sent.get(PROJECT_HEADER, ""))
        )

    async def aclose(self) -> None:
        """See Credentials."""
        await self._bearer.aclose()
        self._aside.close()

    async def _fetch(self) -> ExpiringValue[Bearer]:
        try:
            lease = await self._aside.run(self._source.bearer)
        except TimeoutError as exc:
            raise UpstreamUnreachable(
                f"no access token after {FETCH_S:.0f} s", upstream=self._upstream
            ) from exc
        token = lease.value.token.reveal()
        if not token or not token.isascii() or not token.isprintable() or not lease.lifetime_s > 0:
            raise UpstreamRefused(
                "no access token: it is empty, cannot be sent, or has already expired",
                upstream=self._upstream,
            )
        return lease
