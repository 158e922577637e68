"""Simulated outages of everything: they hit all variants, and are the fault of none."""

import numpy as np
from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Circuit
from strowger_gateway.gateway.experiments.guarding.circuit import Sums, is_open, kept

EVERY, LENGTH = 800, 60
"""Mean numbers of requests between outages, and in one."""


class World(Struct, frozen=True, kw_only=True):
    """treated: of the units. shape: of the units' Pareto sizes. busier: how many times the treated
    units send as much. burst: mean number of requests that a unit sends without a pause."""

    units: int = 60
    treated: int = 30
    shape: float = 1.5
    busier: float = 1.0
    burst: int = 1


def opened(
    rng: np.random.Generator,
    world: World,
    *,
    requests: int,
    failing: float,
    every: int = 5,
    failing_after: int | None = None,
) -> Sums | None:
    """Return the last requests when the circuit opens, `None` if it stays closed.

    requests: of all units, with outages in which the part `failing` of all requests fails, and 2 %
    else. every: requests between two checks. failing_after: requests after which all of treatment
    fail.
    """
    treated = rng.permutation(np.arange(world.units)) < world.treated
    sizes = (rng.pareto(world.shape, world.units) + 1) * np.where(treated, world.busier, 1.0)
    units: list[int] = []
    while len(units) < requests:
        unit = int(rng.choice(world.units, p=sizes / sizes.sum()))
        units += [unit] * int(rng.geometric(1 / world.burst))
    of = treated[np.array(units[:requests])]
    rates = np.full(requests, 0.02)
    at = int(rng.exponential(EVERY))
    while at < requests:
        end = at + 1 + int(rng.exponential(LENGTH))
        rates[at:end] = failing
        at = end + int(rng.exponential(EVERY))
    if failing_after is not None:
        rates = np.where(of & (np.arange(requests) >= failing_after), 1.0, rates)
    failed = rng.random(requests) < rates
    sums = [np.cumsum(one) for one in (of, of & failed, ~of, ~of & failed)]
    past: tuple[Sums, ...] = ()
    for place in range(every - 1, requests, every):
        found = [int(one[place]) for one in sums]
        now = Sums(
            requests=found[0], errors=found[1], control_requests=found[2], control_errors=found[3]
        )
        last = is_open(Circuit(), past, now)
        if last is not None:
            return last
        past = kept(Circuit(), past, now)
    return None
