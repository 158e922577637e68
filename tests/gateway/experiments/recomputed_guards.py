"""The split, what is missing, and what guards see, from an export's tables.

Written from docs/experiments-statistics.md; it shares no code with the gateway.
"""

from collections.abc import Mapping, Sequence
from math import comb, exp, inf, lgamma, log, log1p, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from tests.gateway.experiments.recomputed import (
    Floats,
    Found,
    Table,
    compared,
    one_sided_reach,
    rho_of,
    weights,
)

Line = Mapping[str, str]
NORMAL: Final = NormalDist()
POWER: Final = NORMAL.inv_cdf(0.8)


def split_p(epochs: Sequence[Line], errors: Table) -> float:
    shares: dict[int, dict[str, float]] = {}
    for line in epochs:
        if line["variant"] and line["paused"] == "0":
            shares.setdefault(int(line["epoch"]), {})[line["variant"]] = float(line["weight"])
    first = min(
        (epoch for epoch, of in shares.items() if sum(one > 0 for one in of.values()) > 1),
        default=0,
    )
    units: dict[str, tuple[int, str]] = {}
    for epoch, arm, unit in sorted(errors.keys, key=lambda key: (key[0] < first, key)):
        units.setdefault(unit, (epoch, arm))
    places = list(units.values())
    total = 0.0
    for epoch, of in shares.items():
        whole = sum(of.values())
        arms = [(of[arm] / whole, places.count((epoch, arm))) for arm in of if of[arm]]
        total += mixture(arms)
    return exp(-max(total, 0.0))


def mixture(arms: Sequence[tuple[float, int]]) -> float:
    every = sum(n for _, n in arms)
    anywhere = lgamma(2000) - lgamma(2000 + every)
    for share, n in arms:
        anywhere += lgamma(2000 * share + n) - lgamma(2000 * share) - n * log(share)
    parts = [log(0.1) + anywhere]
    for share, n in arms:
        rest = 1 - share
        off = min(0.017 * sqrt(share * rest), share / 2, rest / 2)
        for moved in (off, -off):
            one = n * log1p(moved / share)
            if rest:
                one += (every - n) * log1p(-moved / rest)
            parts.append(log(0.9 / (2 * len(arms))) + one)
    most = max(parts)
    return most + log(sum(exp(one - most) for one in parts))


def time_of(goal: float, reach: float, sides: int, alpha: float) -> float:
    """The time by which an interval, and `reach` standard errors, are `goal` wide."""
    rho = rho_of(alpha)

    def wide(time: float) -> float:
        c = (
            sqrt((time + rho) * log((time + rho) / (rho * alpha**2)) / time)
            if sides == 2
            else one_sided_reach(time, alpha)
        )
        return (c + reach) / sqrt(time)

    low, high = -20.0, log(1e12)
    if wide(1e12) > goal:
        return inf
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if wide(exp(middle)) > goal else (low, middle)
    return exp(high)


def more_units(found: Found, *, smallest: float | None, alpha: float) -> int | None:
    step = found.error * sqrt(found.time)
    needed = found.time
    if smallest is not None:
        needed = time_of(smallest / step, POWER, 2, alpha)
    if needed <= found.time:
        apart = abs(found.difference)
        goal = apart if smallest is None else max(apart, smallest - apart)
        needed = time_of(goal / step, 0.0, 2, alpha)
    return missing(needed, found)


def more_for_clause(found: Found, apart: float, alpha: float) -> int | None:
    if apart <= 0:
        return None
    step = found.error * sqrt(found.time)
    return missing(time_of(apart / step, 0.0, 1, alpha), found)


def missing(needed: float, found: Found) -> int | None:
    if needed == inf:
        return None
    return round(max(needed - found.time, 0.0) * found.units / found.time)


def level_of_next(looks: int) -> float:
    if looks < 14:
        return 0.006 / 60
    if looks < 22:
        return 0.006 * 0.08
    after = looks - 21
    return 0.006 * 19 / 150 / (after * (after + 1))


def seen_by_bound(
    rows: Table, arm: str, bounds: tuple[float, float] | None, limit: float
) -> float | None:
    found = compared(rows, arm, alpha=0.01, bounds=bounds, planned=400)
    if found.effective < 15 - 1e-6:
        return None
    return limit + (one_sided_reach(found.time, 0.01, 400) + POWER) * found.error


class Arm:
    """One arm of an epoch, with the page's letters."""

    def __init__(self, rows: Table, w: Floats, own: Floats) -> None:
        at = own.astype(bool)
        self.n, self.w = rows.count[at], w[at]
        self.x = (w * rows.total / rows.count)[at]
        self.sent, self.units = float(self.n.sum()), int(at.sum())
        self.mean = float(self.x.sum() / self.w.sum())
        self.kish = float(self.w.sum() ** 2 / (self.w**2).sum())

    def design(self, rate: float) -> float:
        if not 0 < rate < 1:
            return 1.0
        off = self.x - self.mean * self.w
        variance = float((off**2).sum()) * self.units / (self.units - 1) / self.w.sum() ** 2
        return max(variance * self.sent / (rate * (1 - rate)), 1.0)


def seen_by_score(
    rows: Table, epoch: int, arm: str, limit: float, level: float, *, more_is_better: bool
) -> float | None:
    w = weights(rows, per_unit=False)
    here = rows.epoch == epoch
    treated, control = (
        Arm(rows, w, np.asarray(here & rows.of(one), np.float64)) for one in (arm, "control")
    )
    if min(treated.kish, control.kish) < 10:
        return None
    p1, p0 = (1 - one.mean if more_is_better else one.mean for one in (treated, control))
    q0 = (p0 * control.sent + 0.5) / (control.sent + 1)
    q1 = min(q0 + limit, 1.0)
    f0 = control.design(p0)
    f1 = treated.design(p1) if p1 < 1 else f0
    v0, v1 = f0 * q0 * (1 - q0) / control.sent, f1 * q1 * (1 - q1) / treated.sent
    g = v1**2 / q1 / (v0 + v1) ** 1.5
    z = NORMAL.inv_cdf(1 - level)
    far = z + g * (z * z - 1) / 6 + POWER
    seen = limit + far * sqrt(v0 + v1)
    return seen if seen < 1 else None


def seen_by_assignment(
    rows: Table, epoch: int, arm: str, limit: float, level: float, *, more_is_better: bool
) -> float | None:
    here = rows.epoch == epoch
    failures = rows.count - rows.total if more_is_better else rows.total
    arms: list[list[tuple[int, int]]] = []
    for name in (arm, "control"):
        at = here & rows.of(name)
        arms.append(
            list(zip(map(int, rows.count[at]), map(round, failures[at].tolist()), strict=True))
        )
    treated, others = arms
    if not treated or not others:
        return None
    gamma, part = level / 8, 0.75 * level
    weight = {n: 1 / (1 + 0.05 * (n - 1)) for n, _ in (*treated, *others)}
    mean = limit * sum(weight[n] * n for n, _ in treated)
    spread = limit * sum(weight[n] ** 2 * n for n, _ in treated)
    third = max(weight[n] for n, _ in treated) * -log(gamma) / 3
    added = mean + third + sqrt(third**2 - 2 * spread * log(gamma))
    subsets = comb(len(treated) + len(others), len(treated))
    known = [weight[n] * y for n, y in others]
    for percent in (5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100):
        failing = [percent / 100 * n * weight[n] for n, _ in treated]
        sure = min(
            weight[n] * (percent / 100 * n - quantile(n, limit, gamma / len(treated)))
            for n, _ in treated
        )
        if 1 / subsets <= part and max(known) < sure:
            return percent / 100
        if chernoff(failing, known, sum(failing) - added, subsets) <= part:
            return percent / 100
    return None


def quantile(n: int, p: float, gamma: float) -> int:
    """The least k that Binomial(n, p) exceeds with probability gamma at most."""
    over = 1.0
    for k in range(n + 1):
        over -= comb(n, k) * p**k * (1 - p) ** (n - k)
        if over <= gamma:
            return k
    return n


def chernoff(
    treated: Sequence[float], others: Sequence[float], reach: float, subsets: int
) -> float:
    scores = [*treated, *others]
    highest = max(scores)
    if reach <= 0 or highest <= 0:
        return 1.0
    found = 1.0
    for j in range(1, 41):
        slope = j / highest
        mean = sum(exp(slope * one) for one in scores) / len(scores)
        found = min(found, exp(min(len(treated) * log(mean) - slope * reach, 0.0)))
    return max(found, 1 / subsets)
