"""`GET /admin/provider-keys`: the keys of providers with several, and which of them rest."""

from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.backends.upstream.key_pool.pool import KeyPool
from strowger_gateway.gateway.backends.upstream.key_pool.pooled_key import PooledKey
from strowger_gateway.gateway.governance.provider_keys.process_side import KeyPoolsSide
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, Nothing
from strowger_gateway.gateway.platform.clock import now

KeyState = Literal["in use", "busy", "rate-limited", "refused"]
"""busy: others are preferred, after a 429 without retry-after. rate-limited: no calls, because the
vendor said so or its own limit is reached. refused: the vendor refuses its account."""


class ProviderKeyView(Struct, frozen=True, kw_only=True):
    """A key, without its secret. Rests are known to all processes of this gateway.

    rests_s: until it is used again, seconds. in_flight, calls: of the process that answers, calls
    by outcome. requests_per_minute, tokens_per_minute: its limits; `None`: not known.
    """

    provider: str
    name: str
    weight: float
    state: KeyState
    rests_s: float
    in_flight: int
    calls: dict[str, int]
    requests_per_minute: int | None
    tokens_per_minute: int | None


class ProviderKeyList(Struct, frozen=True, kw_only=True):
    """In the order of the configuration."""

    keys: tuple[ProviderKeyView, ...]


async def provider_keys(call: AdminCall[Nothing]) -> ProviderKeyList:
    return ProviderKeyList(keys=keys_in(call.side(KeyPoolsSide)))


def keys_in(side: KeyPoolsSide) -> tuple[ProviderKeyView, ...]:
    """Return the keys of all pools."""
    at = now()
    return tuple(_viewed(pool, key, at) for pool in side.pools.values() for key in pool.keys)


def _viewed(pool: KeyPool, key: PooledKey, at: float) -> ProviderKeyView:
    waits: dict[KeyState, float] = {
        "refused": key.refused_until - at,
        "rate-limited": key.wait(at, pool.processes),
        "busy": key.busy_until - at,
    }
    resting: list[KeyState] = [one for one, wait in waits.items() if wait > 0]
    state: KeyState = resting[0] if resting else "in use"
    return ProviderKeyView(
        provider=pool.name,
        name=key.name,
        weight=key.weight,
        state=state,
        rests_s=max(0.0, waits.get(state, 0.0)),
        in_flight=key.in_flight,
        calls=dict(key.sent),
        requests_per_minute=key.requests,
        tokens_per_minute=key.tokens,
    )


ROUTE: Final = AdminRoute(
    method="GET",
    path="/provider-keys",
    role="viewer",
    summary="The keys of providers with several, by name, and which of them rest",
    takes=Nothing,
    returns=ProviderKeyList,
    answer=provider_keys,
)
