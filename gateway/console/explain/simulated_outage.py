"""Simulate an outage for a planner, to show fallbacks without a real one."""

from collections.abc import Collection

import msgspec

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.route import Backend, Route, RouteTable
from strowger_gateway.gateway.routing.resilience.breaker_per_model import Breakers
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker

_RULE = BreakerRule(failure_rate=1.0, min_requests=1, cooldown_s=3600.0, max_cooldown_s=3600.0)


def is_named(backend: Backend, name: str) -> bool:
    """True if `name` is its PROVIDER or its PROVIDER/MODEL, which may match a wildcard backend.

    Of a replica also its PROVIDER/MODEL @ HOST:PORT.
    """
    if name in (backend.name, backend.name.partition("/")[0], backend.place):
        return True
    return backend.model == "*" and name.startswith(backend.name[:-1])


def with_outage(planner: Planner, names: Collection[str], now: float) -> Planner:
    """Return a copy of the planner for which the circuits of the named backends are open."""
    if not names:
        return planner
    known: dict[int, Backend] = {}

    def one(backend: Backend) -> Backend:
        if id(backend) not in known:
            named = any(is_named(backend, name) for name in names)
            known[id(backend)] = (
                msgspec.structs.replace(backend, breaker=_open(now), breakers=_AllOpen(now))
                if named
                else backend
            )
        return known[id(backend)]

    def followed(route: Route) -> Route:
        rules = tuple(
            msgspec.structs.replace(rule, backends=tuple(map(one, rule.backends)))
            for rule in route.rules
        )
        return msgspec.structs.replace(
            route,
            backends=tuple(map(one, route.backends)),
            rules=rules,
        )

    table = planner.table
    routes = [followed(route) for route in table.routes.values()]
    experiments = {
        name: experiment.with_backends(one) for name, experiment in planner.experiments.items()
    }
    return Planner(RouteTable(routes, table.aliases, pooled=table.pooled), experiments)


def is_simulated_outage(backend: Backend) -> bool:
    """True if the backend is down because of the simulation."""
    return backend.breaker.rule is _RULE


class _AllOpen(Breakers):
    """Breakers that are open for every model name."""

    def __init__(self, now: float) -> None:
        super().__init__(_RULE)
        self.made = lambda name, breaker: breaker.fail(now, probe=False)


def _open(now: float) -> Breaker:
    breaker = Breaker(_RULE)
    breaker.fail(now, probe=False)
    return breaker
