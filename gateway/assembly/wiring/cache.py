"""The rules of the response cache of a configuration. Without any, its room is not imported."""

from typing import TYPE_CHECKING

from strowger_gateway.gateway.config.schema.cache import CacheConfig
from strowger_gateway.gateway.config.schema.config import Config

if TYPE_CHECKING:
    from strowger_gateway.gateway.content.cache.key import CacheRules


def cache_of(config: Config) -> "CacheRules | None":
    """Return the rules; `None` if nothing is cached."""
    models = {one.name: one.cache for one in config.models if one.cache is not None}
    if config.cache is None and not models:
        return None
    from strowger_gateway.gateway.content.cache.fingerprints import fingerprints_of
    from strowger_gateway.gateway.content.cache.key import CacheRules

    return CacheRules(
        config=config.cache or CacheConfig(), models=models, fingerprints=fingerprints_of(config)
    )
