"""AWS's signatures (SigV4): made for each request, with keys that are given or that are found.

Keys that are found, as AWS's own tools find them (environment, profile, role of the machine or
container), may be calls of other services: they are looked for in a thread, and kept for a minute.
botocore renews those that expire a quarter of an hour before they do.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
"""

from collections.abc import Callable

from adapters.base import Outbound
from gateway.upstream.credentials.auto_refresh import AutoRefresh, ExpiringValue
from gateway.upstream.credentials.base import Headers
from gateway.upstream.credentials.blocking_calls import BlockingCalls
from gateway.upstream.credentials.botocore_keys import KeyChain, Keys, signature
from schemas.errors import UpstreamUnreachable

KEPT_S = 60.0
FIND_S = 30.0
"""For looking once, in all the places."""

_STALE = b"security token"
"""What AWS says of keys that have expired, or are not known (any more)."""


class AwsSignatures:
    """See Credentials. keys: `None` has them looked for, in a new `chain`.

    origin: scheme and authority, as the `host` header has it.
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
        # The mutable state: where keys are looked for, and those that were found last.
        self._chain: KeyChain | None = None
        self._last: Keys | None = None
        self._found: AutoRefresh[Keys] = AutoRefresh(self._look, upstream=upstream)

    def __repr__(self) -> str:
        return f"AwsSignatures({self._upstream!r}, {self._region})"

    async def headers(self, outbound: Outbound, *, by: float) -> Headers:
        """See Credentials. Signs the method, the target, the body, and host and content-type."""
        keys = self._keys
        if keys is None:
            keys = self._last = await self._found.get(by)
        return signature(keys, outbound, origin=self._origin, region=self._region)

    def rejected(self, headers: Headers, status: int, body: bytes) -> bool:
        """See Credentials. Keys that were found may have been replaced where they were found."""
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

    async def _look(self) -> ExpiringValue[Keys]:
        if self._chain is None:
            self._chain = self._new_chain()
        try:
            keys = await self._aside.run(self._chain.keys)
        except TimeoutError as exc:
            raise UpstreamUnreachable(
                "no AWS credentials: looking for them took too long", upstream=self._upstream
            ) from exc
        return ExpiringValue(value=keys, lifetime_s=KEPT_S)
