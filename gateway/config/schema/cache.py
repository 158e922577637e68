"""The shape of `cache` and of `models[].cache` in config.yaml: which answers are kept."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import KIB, MIB, Seconds, Size

PromptCache = Literal["auto", "always", "off"]
"""What is marked for vendors that cache prompts: see adapters/form_repairs/prompt_cache.py."""


class CacheConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where answers are kept.

    store: memory, of each worker; or redis, the one of `store.redis_url`, for all gateways.
    max_bytes: of the memory, per worker. max_entry_bytes: of one answer; a larger one is not kept.
    ttl_s: of answers to requests that ask by header, on models without a rule of their own.
    share: key: a key's answers are for its own requests; team: for those of its whole team.
    by_header: clients may ask with `x-gateway-cache: on`.
    """

    store: Literal["memory", "redis"] = "memory"
    max_bytes: Annotated[int, Meta(ge=64 * KIB, extra={"size": True})] = 64 * MIB
    max_entry_bytes: Size = MIB
    ttl_s: Seconds = 300.0
    share: Literal["key", "team"] = "key"
    by_header: bool = True


class ModelCache(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answers of a model that are kept without the client's asking.

    when: temperature_0: of requests with the temperature 0, and embeddings; always: of all.
    """

    ttl_s: Seconds = 300.0
    when: Literal["temperature_0", "always"] = "temperature_0"
