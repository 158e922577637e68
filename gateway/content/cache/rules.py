"""Which requests use the cache, by one configuration and by their headers."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct

from strowger_gateway.gateway.config.schema.cache import CacheConfig, ModelCache
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import EmbeddingsRequest, Request

OWN_HEADER: Final = b"x-gateway-cache"
_MAX_AGE: Final = re.compile(rb"max-age *= *\"?(\d{1,9})\"?")


class Use(Struct, frozen=True, kw_only=True, gc=False):
    """How a request uses the cache. Times in seconds.

    bypass: it asks for an answer from the cache, and does not get one: say so.
    ttl_s: of its answer. oldest_s: the greatest age of an answer that it takes.
    """

    bypass: bool = False
    ttl_s: float = 0.0
    oldest_s: float = float("inf")


BYPASS: Final = Use(bypass=True)


class CacheRules(Struct, frozen=True, kw_only=True, eq=False):
    """Those of one configuration generation.

    models: the rules, by the model's name; fingerprints: of all models.
    """

    config: CacheConfig
    models: Mapping[str, ModelCache]
    fingerprints: Mapping[str, str]

    def use(self, route: str, request: Request, headers: Mapping[bytes, bytes]) -> Use | None:
        """Return how a request uses the cache; `None` if neither side asks for it.

        request: with the operator's values. Raises InvalidRequest for an unknown value of our own
        header.
        """
        rule = self.models.get(route)
        asked = headers.get(OWN_HEADER) if self.config.by_header else None
        if asked is not None:
            asked = asked.strip().lower()
            if asked not in (b"on", b"off"):
                raise InvalidRequest(
                    "the header x-gateway-cache must be on or off", param="x-gateway-cache"
                )
        if asked is None and rule is None:
            return None
        if asked == b"off":
            return BYPASS
        greedy_only = asked is None and rule is not None and rule.when == "temperature_0"
        if greedy_only and not _is_greedy(request):
            return BYPASS
        ttl_s = self.config.ttl_s if rule is None else rule.ttl_s
        control = headers.get(b"cache-control")
        if control is None:
            return Use(ttl_s=ttl_s)
        control = control.lower()
        if b"no-store" in control:
            return BYPASS
        if b"no-cache" in control:
            return Use(ttl_s=ttl_s, oldest_s=0.0)
        age = _MAX_AGE.search(control)
        return Use(ttl_s=ttl_s) if age is None else Use(ttl_s=ttl_s, oldest_s=float(age[1]))


def _is_greedy(request: Request) -> bool:
    if isinstance(request, EmbeddingsRequest):
        return True
    return request.sampling.temperature is not UNSET and request.sampling.temperature == 0
