"""The response cache as a part: the rules of each generation, and the stage that asks it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.cache import CacheConfig
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import Prepared, RequestPart, RequestSide

if TYPE_CHECKING:
    from strowger_gateway.gateway.content.cache.cache import AnswerCache
    from strowger_gateway.gateway.content.cache.key import CacheRules
    from strowger_gateway.gateway.stages.generation import Generation
    from strowger_gateway.gateway.stages.stage import Stage
    from strowger_gateway.gateway.surfaces.hot_route import HotRoute


class CachePart(RequestPart):
    """`cache` and `models[].cache` are fields of `Config`. Without any, nothing is imported."""

    name = "cache"

    def check(self, config: Config, problems: Problems) -> None:
        cache, redis = config.cache, config.store.redis_url
        if cache is not None and cache.store == "redis" and not redis:
            problems.add(("cache", "store"), "redis needs store.redis_url, which names the server")

    def prepare(self, generation: "Generation", before: Prepared | None) -> Prepared | None:
        rules = cache_of(generation.config)
        return None if rules is None else PreparedRules(rules)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        return CacheSide(at)


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


class PreparedRules(Prepared):
    """rules: which answers are cached, and for how long."""

    def __init__(self, rules: "CacheRules") -> None:
        self.rules = rules


class CacheSide(RequestSide[None, None]):
    """cache: the answers in this process, over all generations; `None` if none wanted any."""

    def __init__(self, at: ProcessContext) -> None:
        self._registry = at.registry
        self.cache: AnswerCache | None = None

    def follow(self, generation: "Generation") -> None:
        """Keep answers where this generation wants them, if it wants any."""
        config = generation.config
        if config.cache is None and all(one.cache is None for one in config.models):
            return
        if self.cache is None:
            from strowger_gateway.gateway.content.cache.cache import AnswerCache
            from strowger_gateway.gateway.content.cache.counts import CacheCollector

            self.cache = AnswerCache()
            self._registry.register(CacheCollector(self.cache.counts, self.cache.size))
        self.cache.configure(config.cache or CacheConfig(), config)

    def stages(
        self, generation: "Generation", prepared: PreparedRules | None, at: "HotRoute"
    ) -> "Sequence[Stage]":
        if prepared is None or self.cache is None or at.counts:
            return ()
        from strowger_gateway.gateway.content.cache.stage import CacheStage

        return (CacheStage(self.cache, prepared.rules),)

    async def close(self, within_s: float) -> None:
        """Close the connections of the cache."""
        if self.cache is not None:
            await self.cache.close()
