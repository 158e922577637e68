"""How far each spend cap is used up, and what is held once it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.schema.budgets import Per, SpendCap
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.budgets.calendar import Period, period_of
from strowger_gateway.gateway.routing.backend_holds.names import backends_in
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.storage.sql.spend_rows import NANOS


class CapStanding(Struct, frozen=True, kw_only=True):
    """A spend cap in its current period. Amounts are US dollars, times Unix seconds.

    models: the vendor's names that it is of. backends: of the configuration, those that it holds
    once it is used up. spent: of all gateways, as the store knows it.
    used_up: requests go to other backends. resets: when it begins again; `None`: never.
    """

    provider: str
    models: tuple[str, ...]
    per: Per
    usd: float
    spent: float
    used_up: bool
    resets: float | None
    backends: tuple[str, ...]


Spent = Callable[[Period], Mapping[str, int]]
"""Returns what backends have cost in a period, 10⁻⁹ US dollars."""


def capped(config: Config) -> Iterator[tuple[str, SpendCap]]:
    """Yield each spend cap with its provider."""
    for provider in config.providers:
        for cap in provider.spend_caps:
            yield provider.name, cap


def standings(config: Config, spent: Spent, at: float) -> tuple[CapStanding, ...]:
    """Return the standing of each cap, in the order of the configuration. at: Unix seconds."""
    return tuple(_standing(config, name, cap, spent, at) for name, cap in capped(config))


def _standing(config: Config, name: str, cap: SpendCap, spent: Spent, at: float) -> CapStanding:
    period = period_of(cap.per, cap.time_zone, at)
    cost = sum(
        nanos
        for backend, nanos in spent(period).items()
        if backend.startswith(f"{name}/") and covers(cap.models, backend.partition("/")[2])
    )
    return CapStanding(
        provider=name,
        models=cap.models,
        per=cap.per,
        usd=cap.usd,
        spent=cost / NANOS,
        used_up=cost >= cap.usd * NANOS,
        resets=period.resets,
        backends=tuple(held_by(config, name, cap)),
    )


def held_by(config: Config, provider: str, cap: SpendCap) -> Iterator[str]:
    """Yield the backends that a cap holds, and PROVIDER/PATTERN for names of a wildcard backend.

    A wildcard backend itself is held only if the cap is of all models.
    """
    known = [one for one in backends_in(config) if one.partition("/")[0] == provider]
    held = [one for one in known if covers(cap.models, one.partition("/")[2])]
    yield from held
    if f"{provider}/*" in known and f"{provider}/*" not in held:
        named = dict.fromkeys(f"{provider}/{model}" for model in cap.models)
        yield from (one for one in named if one not in held)


def holds_of(found: Sequence[CapStanding], since: Mapping[str, float]) -> tuple[BackendHold, ...]:
    """Return the holds of the caps that are used up, one for each backend: the longest.

    since: by backend, when it was first held, Unix seconds.
    """
    holds: dict[str, BackendHold] = {}
    for one in found:
        if not one.used_up:
            continue
        for backend in one.backends:
            before = holds.get(backend)
            if before is not None and not _ends_later(one.resets, before.until):
                continue
            period = "in total" if one.per == "total" else f"per {one.per}"
            holds[backend] = BackendHold(
                name=backend,
                state="over_budget",
                reason=f"the spend cap of ${one.usd:,.2f} {period} is used up",
                since=since.get(backend, 0.0),
                until=one.resets,
            )
    return tuple(holds.values())


def _ends_later(one: float | None, other: float | None) -> bool:
    return other is not None and (one is None or one > other)
