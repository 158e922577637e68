"""The order in which a model's candidates are asked: one pure function per policy.

A policy gets the statistics of the backends, one draw, uniform in [0, 1), and the request's key
(b"" if it has none). It returns indexes, first choice first, each exactly once. Backends with
weight 0 get no regular traffic under any policy: they come last, in the listed order. Randomness
and time are arguments, so that a test of a policy is arithmetic.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from strowger_gateway.gateway.platform.rendezvous import ranked


class BackendStats(Struct, frozen=True, kw_only=True, gc=False):
    """What a policy knows about one backend.

    busy:      attempts in flight, in all processes.
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
    """A policy by its name in `config.yaml`.

    key:   what the order depends on in a request: its unit, the beginning of its prompt, or "".
    plain: the order depends on names, weights and the draw alone.
    fixed: the order is that of the configuration.
    """

    name: str
    order: Order
    key: Key = ""
    plain: bool = False
    fixed: bool = False


POLICIES: dict[str, Policy] = {}


def policy(
    name: str, *, key: Key = "", plain: bool = False, fixed: bool = False
) -> Callable[[Order], Order]:
    """Register a policy under the name that `config.yaml` uses."""

    def register(order: Order) -> Order:
        POLICIES[name] = Policy(name=name, order=order, key=key, plain=plain, fixed=fixed)
        return order

    return register


@policy("in_order", plain=True, fixed=True)
def in_order(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """The order of the configuration; weights and the draw have no effect."""
    return list(range(len(backends)))


@policy("weighted", plain=True)
def weighted(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """First choice with probability weight / sum; each next one by the same rule."""
    return by_weight([one.weight for one in backends], draw)


@policy("least_busy")
def least_busy(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """The fewest attempts in flight divided by weight first; ties by the draw."""

    def share(index: int) -> float:
        one = backends[index]
        return one.busy / one.weight if one.weight > 0 else math.inf

    return sorted(weighted(backends, draw, key), key=share)


@policy("lowest_latency")
def lowest_latency(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """Of two drawn by weight, the one with the lower product of latency and queue.

    Two random choices prevent all requests from going to the backend that was fastest a moment ago
    (Mitzenmacher 2001, "The Power of Two Choices in Randomized Load Balancing"). A backend without
    a measurement counts as fast, so that it is measured soon.
    """

    def cost(index: int) -> float:
        one = backends[index]
        return (one.latency_s or 0.0) * (one.busy + 1)

    order = weighted(backends, draw, key)
    pair = [index for index in order[:2] if backends[index].weight > 0]
    return [*sorted(pair, key=cost), *order[len(pair) :]]


@policy("lowest_cost")
def lowest_cost(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """The cheapest for this request first; ties by the draw. Backends without a price come last."""

    def cost(index: int) -> tuple[bool, float]:
        one = backends[index]
        return one.weight <= 0, math.inf if one.cost_usd is None else one.cost_usd

    return sorted(weighted(backends, draw, key), key=cost)


@policy("sticky", key="unit")
def sticky(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """A key has the same backend in every process and after a restart; `weighted` without one."""
    if not key:
        return weighted(backends, draw, key)
    return ranked(key, [one.name for one in backends], [one.weight for one in backends])


SLACK = 1.25
"""The multiple of its share of the load above which a backend gets no further prompts."""


@policy("prefix_affinity", key="prefix")
def prefix_affinity(backends: Sequence[BackendStats], draw: float, key: bytes) -> list[int]:
    """Prompts with the same prefix go to the backend that has it cached, unless it is overloaded.

    Rendezvous order with bounded loads: backends with more than 1.25 times their share of the
    attempts in flight, this request included, come after the others. Mirrokni, Thorup and
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

    The remainder of the draw after a choice is uniform again, so one draw is enough for all.
    """
    remaining = [index for index, weight in enumerate(weights) if weight > 0]
    order: list[int] = []
    while remaining:
        total = sum(weights[index] for index in remaining)
        mark = draw * total
        chosen = remaining[-1]
        for index in remaining:
            if mark < weights[index]:
                chosen = index
                break
            mark -= weights[index]
        draw = min(max(mark / weights[chosen], 0.0), 1.0 - 2.0**-53)
        remaining.remove(chosen)
        order.append(chosen)
    return order + [index for index, weight in enumerate(weights) if weight <= 0]
