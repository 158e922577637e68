"""CORS: which browser pages may call. https://fetch.spec.whatwg.org/#http-cors-protocol"""

from collections.abc import Sequence

Headers = list[tuple[bytes, bytes]]

_EXPOSED = (
    b"x-request-id, x-gateway-request-id, x-gateway-backend, x-gateway-experiment, "
    b"x-gateway-variant, x-gateway-replay, x-gateway-attempts, x-gateway-hedged, "
    b"x-gateway-cost-usd, "
    b"x-gateway-dropped-params, "
    b"x-gateway-defaulted-params, x-gateway-repairs, x-gateway-budget, x-gateway-budget-model, "
    b"x-gateway-cache, age, "
    b"retry-after, retry-after-ms, x-should-retry, server-timing, "
    b"x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
    b"x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, "
    b"anthropic-ratelimit-requests-limit, anthropic-ratelimit-requests-remaining, "
    b"anthropic-ratelimit-requests-reset, anthropic-ratelimit-tokens-limit, "
    b"anthropic-ratelimit-tokens-remaining, anthropic-ratelimit-tokens-reset"
)


class CorsHeaders:
    """The CORS headers for an origin; none for an origin that is not allowed."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._any = "*" in origins
        self._origins = frozenset(origin.rstrip("/").encode() for origin in origins)

    def headers(self, origin: bytes) -> Headers:
        if not origin or not (self._any or origin in self._origins):
            return []
        return [
            (b"access-control-allow-origin", b"*" if self._any else origin),
            (b"access-control-expose-headers", _EXPOSED),
            *([] if self._any else [(b"vary", b"origin")]),
        ]

    def preflight(self, origin: bytes, methods: str) -> Headers:
        """Return the headers of a preflight response in addition to `headers`."""
        if not self.headers(origin):
            return []
        return [
            (b"access-control-allow-methods", methods.encode()),
            (b"access-control-allow-headers", b"*, authorization, content-type"),
            (b"access-control-max-age", b"600"),
        ]
