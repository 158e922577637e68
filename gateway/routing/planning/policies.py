"""In which order a model's able and healthy backends are asked: one pure function a policy.

A policy gets how the backends stand, one draw, uniform in [0, 1), and the request's key (b""
where it has none), and returns indexes, first choice first, each exactly once. Backends of
weight 0 get no traffic of their own under any policy: they come last, in the listed order.
Randomness and clocks come in as arguments, so that a test of a policy is arithmetic.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from gateway.routing.planning.rendezvous import ranked


class BackendStats(Struct, frozen=True, kw_only=True, gc=False):
    """How one backend stands.

    busy:      attempts under way.
    latency_s: a moving average, seconds; `None` while unknown.
    cost_usd:  what this request would cost there; `None` without a price.
    """

    name: str
    weight: float = 1.0
    busy: int = 0
    latency_s: float | None = None
    cost_usd: float | None = None


Order = Callable[[Sequence[BackendStats], float, bytes], list[int]]
Key = Literal["", "unit", "prefix"]


class Policy(Struct, frozen=True, kw_only=True):
    """key: what of a request the order goes by. plain: weights and the draw are all it reads."""

    name: str
    order: Order
    key: Key = ""
    plain: bool = False


POLICIES: dict[str, Policy] = {}


def policy(name: str, *, key: Key = "", plain: bool = False) -> Callable[[Order], Order]:
    """Register a policy under the name that `config.yaml` uses."""

    def register(order: Order) -> Order:
        POLICIES[name] = Policy(name=name, order=order, key=key, plain=plain)
        return order

    return register


@policy("in_order", plain=True)
def in_order(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """As the configuration lists them; weights and the draw change nothing."""
    return list(range(len(backends)))


@policy("weighted", plain=True)
def weighted(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """First choice with probability weight / sum; the rest likewise among those left."""
    return by_weight([one.weight for one in backends], draw)


@policy("least_busy")
def least_busy(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """The fewest attempts under way for its weight; of equals, by the draw."""

    def share(index: int) -> float:
        one = backends[index]
        return one.busy / one.weight if one.weight > 0 else math.inf

    return sorted(weighted(backends, draw, key), key=share)


@policy("lowest_latency")
def lowest_latency(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """Of two drawn by weight, the one whose latency times its queue is less.

    Two random choices keep a crowd from running to whoever was fastest a moment ago (Mitzenmacher
    2001, "The Power of Two Choices in Randomized Load Balancing"). Who was never measured counts
    as fast, and is therefore measured soon.
    """

    def cost(index: int) -> float:
        one = backends[index]
        return (one.latency_s or 0.0) * (one.busy + 1)

    order = weighted(backends, draw, key)
    pair = [index for index in order[:2] if backends[index].weight > 0]
    return [*sorted(pair, key=cost), *order[len(pair) :]]


@policy("lowest_cost")
def lowest_cost(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """The cheapest for this request; of equals, by the draw. Who has no price comes after."""

    def cost(index: int) -> tuple[bool, float]:
        one = backends[index]
        return one.weight <= 0, math.inf if one.cost_usd is None else one.cost_usd

    return sorted(weighted(backends, draw, key), key=cost)


@policy("sticky", key="unit")
def sticky(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """The key's own backend, on every worker and after a restart; without a key by the draw."""
    if not key:
        return weighted(backends, draw, key)
    return ranked(key, [one.name for one in backends], [one.weight for one in backends])


SLACK = 1.25
"""How far above its share of the load a backend may be before prompts go elsewhere."""


@policy("prefix_affinity", key="prefix")
def prefix_affinity(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """Prompts that begin alike go where that beginning is cached, unless all went there.

    Rendezvous order with bounded loads: whoever has more than 1.25 times its share of what is
    under way, this request included, comes after those who have not. Mirrokni, Thorup and
    Zadimoghaddam 2018, "Consistent Hashing with Bounded Loads".
    """
    order = sticky(backends, draw, key)
    total = sum(one.weight for one in backends)
    requests = sum(one.busy for one in backends) + 1

    def full(index: int) -> bool:
        one = backends[index]
        if one.weight <= 0:
            return True
        return one.busy + 1 > math.ceil(SLACK * requests * one.weight / total)

    return sorted(order, key=full)


def by_weight(weights: Sequence[float], draw: float) -> list[int]:
    """Indexes drawn without replacement, weight 0 last, as listed.

    What is left of the draw after a choice is uniform again, so one draw orders any number.
    """
    rest = [index for index, weight in enumerate(weights) if weight > 0]
    order: list[int] = []
    while rest:
        total = sum(weights[index] for index in rest)
        mark = draw * total
        chosen = rest[-1]
        for index in rest:
            if mark < weights[index]:
                chosen = index
                break
            mark -= weights[index]
        draw = min(max(mark / weights[chosen], 0.0), 1.0 - 2.0**-53)
        rest.remove(chosen)
        order.append(chosen)
    return order + [index for index, weight in enumerate(weights) if weight <= 0]
