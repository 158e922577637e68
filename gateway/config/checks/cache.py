"""Cross-checks of `cache`: a store that can be reached."""

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config


def check_cache(config: Config, problems: Problems) -> None:
    if config.cache is not None and config.cache.store == "redis" and not config.store.redis_url:
        problems.add(("cache", "store"), "redis needs store.redis_url, which names the server")
