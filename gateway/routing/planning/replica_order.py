"""The order of candidates some of which are replicas of one backend.

The policy orders backends, and the replicas of each backend are ordered among themselves: by the
request's key where the policy has one, and otherwise by load. The first two replicas of a backend
precede the backend after it, so that an outage of all replicas costs two attempts, not sixty-four.
"""

from collections.abc import Sequence
from math import ceil
from typing import Final

from strowger_gateway.gateway.platform.rendezvous import ranked
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.policies import (
    SLACK,
    BackendStats,
    Policy,
    by_weight,
)

LATER: Final = 1021.0
"""A prime, so that the later digits of a draw do not depend on the weights of few backends."""

FRONT: Final = 2
"""Replicas of a backend that are tried before the next backend."""


def replica_order(
    found: Sequence[Candidate],
    stats: Sequence[BackendStats],
    policy: Policy,
    draw: float,
    key: bytes,
    now: float,
) -> list[int]:
    """Return indexes, first choice first, each exactly once. now: the clock's seconds."""
    groups: dict[str, list[int]] = {}
    for index, one in enumerate(found):
        groups.setdefault(one.name, []).append(index)
    if len(groups) == 1:
        return _among(found, range(len(found)), policy, draw, key, now)
    # The first digits of the draw choose the backend, so its replica is chosen by later ones.
    later = draw * LATER % 1.0
    ordered = [_among(found, indexes, policy, later, key, now) for indexes in groups.values()]
    whole = [_whole([stats[index] for index in indexes]) for indexes in groups.values()]
    places = policy.order(whole, draw, key)
    front = [index for place in places for index in ordered[place][:FRONT]]
    return front + [index for place in places for index in ordered[place][FRONT:]]


def _whole(replicas: Sequence[BackendStats]) -> BackendStats:
    """A backend as its policy sees it: the load and the latency of its least busy replica."""
    if len(replicas) == 1:
        return replicas[0]
    best = min(replicas, key=lambda one: one.busy)
    return BackendStats(
        name=best.name,
        weight=sum(one.weight for one in replicas),
        busy=best.busy,
        latency_s=best.latency_s,
        cost_usd=best.cost_usd,
    )


def _among(
    found: Sequence[Candidate],
    indexes: Sequence[int],
    policy: Policy,
    draw: float,
    key: bytes,
    now: float,
) -> list[int]:
    """The replicas of one backend; those with an open circuit or a cooldown last."""
    if len(indexes) == 1:
        return [*indexes]
    healthy = [one for one in indexes if now >= found[one].breaker.impaired_until]
    if len(healthy) < len(indexes):
        healthy = [one for one in indexes if found[one].breaker.is_preferred(now)]
        impaired = [one for one in indexes if one not in healthy]
        if not healthy:
            return impaired
    else:
        impaired = []
    shares = [_share(found[one], now) for one in healthy]
    loads = [_load(found[one]) for one in healthy]
    if key:
        order = _by_key(found, healthy, loads, shares, key, bounded=policy.key == "prefix")
    else:
        order = by_load(loads, shares, [found[one].backend.load.in_flight for one in healthy], draw)
    return [healthy[place] for place in order] + impaired


def by_load(
    loads: Sequence[float], shares: Sequence[float], own: Sequence[int], draw: float
) -> list[int]:
    """The least load for its share first.

    loads: requests in flight, as far as they are known. shares: above 0, at most 1. own: those of
    this process. draw: uniform in [0, 1).

    If most of the load is this process's own, that is current, and the least loaded is the right
    choice; ties are drawn. Otherwise it is seconds old and every gateway sees the same, so all of
    them would choose the same replica until the next reading: of two that are drawn, the less
    loaded one is first (Mitzenmacher 2000, "How Useful Is Old Information?").
    """
    costs = [(load + 1.0) / share for load, share in zip(loads, shares, strict=True)]
    count = len(costs)
    if 2 * sum(own) >= sum(loads):
        start = int(draw * count)
        turned = [*range(start, count), *range(start)]
        return sorted(turned, key=costs.__getitem__)
    drawn = by_weight(shares, draw)
    first, second = drawn[0], drawn[1]
    if costs[second] < costs[first]:
        drawn[0], drawn[1] = second, first
    return drawn


def _by_key(
    found: Sequence[Candidate],
    healthy: Sequence[int],
    loads: Sequence[float],
    shares: Sequence[float],
    key: bytes,
    *,
    bounded: bool,
) -> list[int]:
    """The rendezvous order of addresses; bounded: overloaded ones come after the others."""
    names = [found[one].backend.place for one in healthy]
    order = ranked(key, names, [1.0] * len(names))
    if not bounded:
        return order
    total, requests = sum(shares), sum(loads) + 1.0

    def full(place: int) -> bool:
        return loads[place] + 1.0 > ceil(SLACK * requests * shares[place] / total)

    return sorted(order, key=full)


def _share(candidate: Candidate, now: float) -> float:
    replica = candidate.backend.replica
    return 1.0 if replica is None else replica.share(now)


def _load(candidate: Candidate) -> float:
    """Requests in flight: those of others count in whole requests.

    A reading is up to a second old, so an estimate has a fraction of this gateway's own requests
    that ended since; it depends on the time of the poll, and would decide between idle replicas.
    """
    backend = candidate.backend
    others = 0 if backend.replica is None else int(backend.replica.others)
    return backend.load.busy + others
