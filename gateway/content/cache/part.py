"""The response cache as a part: the rules of each generation, and the stage that asks it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.cache import CacheConfig
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.content.cache.inspection.messages import (
    MemoryAsked,
    MemoryReport,
    MemoryState,
    StateWanted,
    added,
)
from strowger_gateway.gateway.content.cache.remote_store import CacheUnavailable
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, PageView
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import Prepared, RequestPart, RequestSide
from strowger_gateway.schemas.errors import Unavailable

if TYPE_CHECKING:
    from strowger_gateway.gateway.content.cache.cache import AnswerCache
    from strowger_gateway.gateway.content.cache.inspection.answer import Cleared, Kept
    from strowger_gateway.gateway.content.cache.inspection.rows import CacheUseCount
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

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.content.cache.inspection.leader_side import CacheLeader

        return CacheLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        return CacheSide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.content.cache.inspection.admin import cache_routes

        return cache_routes(_side_of)

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.content.cache.inspection.admin import cache_page

        return (cache_page(_side_of),)


def _side_of(call: AdminCall[Any]) -> "CacheSide":
    return call.side(CacheSide)


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


class CacheSide(RequestSide[MemoryReport, StateWanted]):
    """cache: the answers in this process, over all generations; `None` if none wanted any."""

    receives = StateWanted

    def __init__(self, at: ProcessContext) -> None:
        self._at = at
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

    def on_message(self, message: StateWanted) -> None:
        """Report what is in memory, after clearing it if that is wanted."""
        self._at.send(self._report(message))

    async def kept(self) -> "Kept":
        """Return what this gateway keeps, or all gateways in Redis. Raises Unavailable."""
        from strowger_gateway.gateway.content.cache.inspection.answer import Kept

        memory = await self._memory(MemoryAsked())
        if self.cache is None:
            return Kept(where="off", memory=memory, entries={}, complete=True)
        if self.cache.remote is None:
            entries, complete = memory.entries, memory.complete
            return Kept(where="memory", memory=memory, entries=entries, complete=complete)
        try:
            entries, complete = await self.cache.remote.by_model()
        except CacheUnavailable:
            entries, complete = dict[str, int](), False
        return Kept(where="redis", memory=memory, entries=entries, complete=complete)

    async def uses(self, since: float, until: float) -> "Sequence[CacheUseCount] | None":
        """Return what the store has; `None` without one. Raises StoreUnavailable."""
        from strowger_gateway.gateway.content.cache.inspection.rows import cache_uses

        store, access = self._at.store, self._at.access
        if store is None or access is None:
            return None
        database = store.database
        return await access.call(lambda _: cache_uses(database, since, until))

    async def clear(self, model: str) -> "Cleared":
        """Forget the answers of a model; "": of all. Raises Unavailable."""
        from strowger_gateway.gateway.content.cache.inspection.answer import Cleared

        memory = await self._memory(MemoryAsked(clear=True, model=model))
        entries, complete = memory.cleared, memory.complete
        if self.cache is not None and self.cache.remote is not None:
            try:
                entries, complete = await self.cache.remote.clear_model(model)
            except CacheUnavailable as exc:
                told = "the cache in Redis cannot be cleared now"
                raise Unavailable(told, retry_after=2) from exc
        return Cleared(entries=entries, complete=complete)

    async def _memory(self, asked: MemoryAsked) -> MemoryState:
        """Ask the processes of this gateway."""
        if self._at.alone and self._at.leader is None:
            wanted = StateWanted(id=0, clear=asked.clear, model=asked.model)
            return added((self._report(wanted),), complete=True)
        return await self._at.ask(asked, MemoryState)

    def _report(self, wanted: StateWanted) -> MemoryReport:
        cache = self.cache
        if cache is None:
            return MemoryReport(id=wanted.id, entries={}, bytes=0, evicted=0, failed=0, shared=0)
        cleared = cache.memory.clear_model(wanted.model) if wanted.clear else 0
        size = cache.size()
        return MemoryReport(
            id=wanted.id,
            entries=cache.memory.by_model(),
            bytes=size.bytes,
            evicted=size.evicted,
            failed=size.failed,
            shared=sum(cache.counts.shared.values()),
            cleared=cleared,
        )

    async def close(self, within_s: float) -> None:
        """Close the connections of the cache."""
        if self.cache is not None:
            await self.cache.close()
