"""What `GET /admin/cache` answers, and what `POST /admin/cache/clear` does."""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.content.cache.inspection.messages import MemoryState
from strowger_gateway.gateway.content.cache.inspection.rows import CacheUseCount
from strowger_gateway.gateway.platform.moments import moment
from strowger_gateway.gateway.routing.planning.prices import Prices
from strowger_gateway.schemas.errors import InvalidRequest

_ATTOS = 1e-18
_Time = Annotated[
    str, Meta(max_length=64, description="an age such as 15m, Unix seconds, or ISO 8601")
]
Where = Literal["off", "memory", "redis"]


class CacheAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From when to when."""

    since: _Time = "24h"
    until: _Time = ""


class ClearCache(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """model: whose answers are forgotten, by its name in `models`; "": those of all models."""

    model: Annotated[str, Meta(max_length=256)] = ""


class Cleared(Struct, frozen=True, kw_only=True):
    """entries: how many answers were forgotten. complete: false if some may be left."""

    entries: int
    complete: bool


class Kept(Struct, frozen=True, kw_only=True):
    """Where answers are kept now, and how many.

    memory: of the processes of this gateway. entries: by model, of Redis or of memory.
    complete: false if not all could be counted in time.
    """

    where: Where
    memory: MemoryState
    entries: Mapping[str, int]
    complete: bool


class ModelCacheUse(Struct, frozen=True, kw_only=True):
    """hits, misses, bypasses: recorded requests. hit_rate: of those that could be hits; null: none.

    saved_…: what hits would have used; saved_usd at the prices of now, without discounts for cached
    prompts; null if no price is known. entries: kept now.
    """

    model: str
    hits: int
    misses: int
    bypasses: int
    hit_rate: float | None
    saved_prompt_tokens: int
    saved_completion_tokens: int
    saved_usd: float | None
    entries: int


class CacheView(Struct, frozen=True, kw_only=True):
    """since, until: Unix seconds. recorded: there is a store that has requests.

    bytes: of answers in the memory of this gateway's processes; max_bytes: of all of them together.
    evicted, shared, failures: since these have started. shared: hits that waited for an equal
    request. failures: uses of Redis that failed.
    """

    since: float
    until: float
    where: Where
    recorded: bool
    complete: bool
    models: tuple[ModelCacheUse, ...]
    entries: int
    bytes: int
    max_bytes: int
    evicted: int
    shared: int
    failures: int


def span_of(asked: CacheAsked) -> tuple[float, float]:
    """Return since and until, Unix seconds. Raises InvalidRequest."""
    now = time.time()
    since, until = _moment("since", asked.since, now), _moment("until", asked.until or "0s", now)
    if until <= since:
        raise InvalidRequest("until: is not after since", param="until")
    return since, until


def cache_view(
    config: Config,
    span: tuple[float, float],
    kept: Kept,
    uses: Sequence[CacheUseCount] | None,
) -> CacheView:
    """uses: of the store in that span; `None` without a store."""
    prices = Prices(
        [*config.prices, *(row.price for row in config.catalogue if row.price is not None)],
    )
    names = dict.fromkeys(one.model for one in uses or ()) | dict.fromkeys(kept.entries)
    models = (_model(name, uses or (), kept, prices) for name in names)
    return CacheView(
        since=span[0],
        until=span[1],
        where=kept.where,
        recorded=uses is not None,
        complete=kept.complete,
        models=tuple(sorted(models, key=lambda one: (-one.hits, one.model))),
        entries=sum(kept.entries.values()),
        bytes=kept.memory.bytes,
        max_bytes=0
        if config.cache is None or kept.where != "memory"
        else config.cache.max_bytes * config.server.workers,
        evicted=kept.memory.evicted,
        shared=kept.memory.shared,
        failures=kept.memory.failed,
    )


def _moment(name: str, text: str, now: float) -> float:
    try:
        return moment(text, now)
    except ValueError as exc:
        raise InvalidRequest(f"{name}: {exc}", param=name) from None


def _model(name: str, uses: Sequence[CacheUseCount], kept: Kept, prices: Prices) -> ModelCacheUse:
    own = [one for one in uses if one.model == name]
    hits = [one for one in own if one.outcome == "hit"]
    counts = {
        outcome: sum(one.requests for one in own if one.outcome == outcome)
        for outcome in ("hit", "miss", "bypass")
    }
    asked = counts["hit"] + counts["miss"]
    saved = [_saved(one, prices) for one in hits]
    known = [one for one in saved if one is not None]
    return ModelCacheUse(
        model=name,
        hits=counts["hit"],
        misses=counts["miss"],
        bypasses=counts["bypass"],
        hit_rate=counts["hit"] / asked if asked else None,
        saved_prompt_tokens=sum(one.prompt_tokens for one in hits),
        saved_completion_tokens=sum(one.completion_tokens for one in hits),
        saved_usd=sum(known) if known or not hits else None,
        entries=kept.entries.get(name, 0),
    )


def _saved(one: CacheUseCount, prices: Prices) -> float | None:
    """Return US dollars; `None` if the price of the backend is unknown."""
    price = prices.of(one.backend)
    if price is None or price.prices is None:
        return None
    tokens = price.prices
    return (one.prompt_tokens * tokens.input + one.completion_tokens * tokens.output) * _ATTOS
