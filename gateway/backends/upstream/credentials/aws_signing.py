"""AWS signatures (SigV4) for each request, with configured or discovered keys.

Keys discovered the way AWS's own tools find them (environment, profile, role of the machine or
container) may require calls to other services: discovery runs in a thread, and its result is cached
for a minute. botocore renews expiring keys a quarter of an hour in advance.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
"""

from collections.abc import Callable

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.credentials.auto_refresh import (
    AutoRefresh,
    ExpiringValue,
)
from strowger_gateway.gateway.backends.upstream.credentials.base import Headers
from strowger_gateway.gateway.backends.upstream.credentials.blocking_calls import BlockingCalls
from strowger_gateway.gateway.backends.upstream.credentials.botocore_keys import (
    KeyChain,
    Keys,
    signature,
)
from strowger_gateway.schemas.errors import UpstreamUnreachable

KEPT_S = 60.0
FIND_S = 30.0
"""Seconds for one discovery in all places."""

_STALE = b"security token"
"""AWS's wording for keys that have expired, or are unknown (any more)."""


class AwsSignatures:
    """See Credentials. keys: `None` discovers them with a new `chain`.

    origin: scheme and authority, as in the `host` header.
    """

    def __init__(
        self,
        origin: str,
        region: str,
        *,
        upstream: str,
        keys: Keys | None,
        chain: Callable[[], KeyChain],
    ) -> None:
        self._origin = origin
        self._region = region
        self._upstream = upstream
        self._keys = keys
        self._new_chain = chain
        self._aside = BlockingCalls(FIND_S)
        # The mutable state: the chain that discovers keys, and the keys found last.
        self._chain: KeyChain | None = None
        self._last: Keys | None = None
        self._found: AutoRefresh[Keys] = AutoRefresh(self._find_keys, upstream=upstream)

    def __repr__(self) -> str:
        return f"AwsSignatures({self._upstream!r}, {self._region})"

    async def headers(self, outbound: Outbound, *, by: float) -> Headers:
        """See Credentials. Signs the method, the target, the body, and host and content-type."""
        keys = self._keys
        if keys is None:
            keys = self._last = await self._found.get(by)
        return signature(keys, outbound, origin=self._origin, region=self._region)

    def rejected(self, headers: Headers, status: int, body: bytes) -> bool:
        """See Credentials. Discovered keys may have been replaced at their source."""
        last = self._last
        if last is None or _STALE not in body:
            return False
        if not any(f"Credential={last.access_key_id}/" in value for _, value in headers):
            return True
        self._chain = None
        return self._found.reject(last)

    async def aclose(self) -> None:
        """See Credentials."""
        await self._found.aclose()
        self._aside.close()

    async def _find_keys(self) -> ExpiringValue[Keys]:
        if self._chain is None:
            self._chain = self._new_chain()
        try:
            keys = await self._aside.run(self._chain.keys)
        except TimeoutError as exc:
            raise UpstreamUnreachable(
                "no AWS credentials: discovery timed out", upstream=self._upstream
            ) from exc
        return ExpiringValue(value=keys, lifetime_s=KEPT_S)
