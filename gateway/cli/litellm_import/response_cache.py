"""Translates `cache` and `cache_params`: answers that are kept for equal requests."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.cli.litellm_import.ledger import Path, mapping, number
from strowger_gateway.gateway.cli.litellm_import.values import Values
from strowger_gateway.gateway.config.yaml_document import Tree

_SECTION: Final = "litellm_settings"
_PARAMS: Final[Path] = (_SECTION, "cache_params")
_ADDRESS: Final = ("url", "host", "port", "password")
_ELSEWHERE: Final = ("cache has other settings", "see docs/caching.md")


class ResponseCache:
    """cache: of config.yaml, `None` for none. each: of every model, `None` if clients ask for it.

    redis_url: that the cache needs and `router_settings` does not give, `None` for none.
    """

    def __init__(self, values: Values, document: Mapping[str, Tree], redis_url: str | None) -> None:
        """redis_url: what `router_settings` has become."""
        self.values = values
        self.ledger = values.ledger
        self.cache: dict[str, object] | None = None
        self.each: dict[str, object] | None = None
        self.redis_url: str | None = None
        settings = mapping(document.get(_SECTION))
        params = mapping(settings.get("cache_params"))
        kind = params.get("type", "redis")
        if settings.get("cache") is not True:
            self._omit("the cache is off", "nothing: it had no effect")
        elif kind not in ("redis", "local"):
            self._omit(
                "the cache here is exact, in memory or in Redis", "write cache (docs/caching.md)"
            )
        else:
            router = mapping(document.get("router_settings"))
            self._translate(params, kind == "redis", router, redis_url)

    def _translate(
        self,
        params: Mapping[str, Tree],
        redis: bool,
        router: Mapping[str, Tree],
        known: str | None,
    ) -> None:
        if redis and known is None:
            known = self.redis_url = redis_url(self.values, params, _PARAMS, "")
        elif redis:
            self._known(params, router)
        listed: Path = ()
        if redis and known is None:
            listed = (*_PARAMS, "type") if "type" in params else (_SECTION, "cache")
            known = self.redis_url = self.values.variable("REDIS_URL")
            self.ledger.omit(
                listed,
                "LiteLLM reads the address of Redis from REDIS_URL, or REDIS_HOST and REDIS_PORT",
                "set the environment variable REDIS_URL to redis://:PASSWORD@HOST:PORT",
            )
        for path in ((*_PARAMS, "type"), (_SECTION, "cache")):
            if path != listed:
                self.ledger.translate(path, "cache.store")
        self.cache = {"store": "redis" if redis and known is not None else "memory"}
        seconds = number(params.get("ttl"))
        kept: dict[str, object] = {"ttl_s": seconds} if seconds else {}
        if kept:
            self.ledger.translate((*_PARAMS, "ttl"), "cache.ttl_s")
        self.cache |= kept
        if params.get("mode") in ("default_on", "default_off"):
            self.ledger.translate((*_PARAMS, "mode"), "models[].cache")
        if params.get("mode") != "default_off":
            self.each = {**kept, "when": "always"}
        self.ledger.omit(_PARAMS, *_ELSEWHERE)

    def _known(self, params: Mapping[str, Tree], router: Mapping[str, Tree]) -> None:
        """Note the address of the cache where `router_settings` has given one already."""
        same = all(params.get(key) in (None, router.get(f"redis_{key}")) for key in _ADDRESS)
        for key in _ADDRESS:
            if same:
                self.ledger.translate((*_PARAMS, key), "store.redis_url")
            else:
                self.ledger.omit(
                    (*_PARAMS, key),
                    "one Redis is for everything, and router_settings names another one",
                    "nothing, or change store.redis_url",
                )

    def _omit(self, reason: str, remedy: str) -> None:
        for path in ((_SECTION, "cache"), _PARAMS):
            self.ledger.omit(path, reason, remedy)


def redis_url(
    values: Values, settings: Mapping[str, Tree], at: Path, prefix: str = "redis_"
) -> str | None:
    """Return `store.redis_url` of the fields `redis_url` or `redis_host` and so on.

    prefix: of the fields' names.
    """
    to = "store.redis_url"
    whole, where, port, password = (f"{prefix}{one}" for one in _ADDRESS)
    url = values.secret(settings.get(whole), (*at, whole), to, "REDIS_URL")
    host = values.text(settings.get(where))
    if url is not None or host is None:
        return url
    secret = values.secret(settings.get(password), (*at, password), to, "REDIS_PASSWORD")
    given = settings.get(port, 6379)
    text = values.text(given) if isinstance(given, str) else str(number(given) or 6379)
    for key in (where, port):
        values.ledger.translate((*at, key), to)
    scheme = "redis"
    if settings.get(f"{prefix}ssl") is True:
        scheme = "rediss"
        values.ledger.translate((*at, f"{prefix}ssl"), to)
    return f"{scheme}://{'' if secret is None else f':{secret}@'}{host}:{text}"
