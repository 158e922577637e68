"""Many looks at an experiment at once: the results of `effect` as arrays over looks.

Written from docs/experiments-statistics.md and not from the code, so that each checks the other.
Units arrive in their order, whole, or (`growing`) all units are there and their requests arrive.
"""

from collections.abc import Callable, Sequence
from heapq import heappush, heappushpop
from math import log

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from strowger_gateway.gateway.statistics.confidence_sequence import one_sided, tuned
from strowger_gateway.gateway.statistics.effects import Look

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Crowd = Callable[[np.random.Generator, Bools], tuple[Floats, Floats]]
"""From who is in treatment, by unit: observations and their sum."""


class Moments(Struct, frozen=True, kw_only=True):
    """sums: [8, 2 arms, E epochs, L looks] of 1, w, x, w², x², w·x, n, w²/n over units with n
    observations, weight w and sum x = w · their mean. least, most: [2, E, L] of x / w.
    """

    sums: Floats
    least: Floats
    most: Floats


class Band(Struct, frozen=True, kw_only=True):
    """By look, [L]: the interval, infinite while unknown, and one standard error."""

    difference: Floats
    low: Floats
    high: Floats
    error: Floats


def arriving(
    treated: Bools, count: Floats, total: Floats, looks: Ints, epochs: Ints | None = None
) -> Moments:
    """looks: numbers of units. epochs: by unit, from 0; each unit is in one."""
    columns = np.stack(_columns(count, total, count))
    number = 1 if epochs is None else int(epochs.max()) + 1
    sums = np.zeros((8, 2, number, len(looks)))
    least, most = (
        np.full((2, number, len(looks)), np.inf),
        np.full((2, number, len(looks)), -np.inf),
    )
    means = total / count
    for epoch in range(number):
        inside = np.ones_like(treated) if epochs is None else epochs == epoch
        for arm in (0, 1):
            here = (treated == bool(arm)) & inside
            sums[:, arm, epoch] = np.cumsum(columns * here, axis=1)[:, looks - 1]
            low, high = np.where(here, means, np.inf), np.where(here, means, -np.inf)
            least[arm, epoch] = np.minimum.accumulate(low)[looks - 1]
            most[arm, epoch] = np.maximum.accumulate(high)[looks - 1]
        _cap(sums[:, :, epoch], treated, inside, count, total, looks)
    return Moments(sums=sums, least=least, most=most)


def _columns(weight: Floats, total: Floats, count: Floats) -> tuple[Floats, ...]:
    pairs = (np.ones_like(weight), weight, total, weight * weight, total * total, weight * total)
    return (*pairs, count, weight * weight / count)


def _cap(
    sums: Floats, treated: Bools, inside: Bools, count: Floats, total: Floats, looks: Ints
) -> None:
    """Replace, in the sums of one epoch, the units above its cap at each look."""
    lowest = np.full(len(looks), np.inf)
    for arm in (0, 1):
        own = np.flatnonzero(inside & (treated == bool(arm)))
        lowest = np.minimum(lowest, caps_as_they_arrive(count[own], np.searchsorted(own, looks)))
    busiest = np.flatnonzero(inside)[np.argsort(-count[inside], kind="stable")]
    above = np.searchsorted(-count[busiest], -lowest, side="left")
    for at in np.flatnonzero(above).tolist():
        found = busiest[: above[at]]
        found = found[found < looks[at]]
        for arm in (0, 1):
            own = found[treated[found] == bool(arm)]
            if len(own):
                sums[:, arm, at] += _change(count[own], total[own], lowest[at])


def _change(count: Floats, total: Floats, cap: float) -> Floats:
    """What a cap below all these counts changes in the sums, [8]."""
    weight = np.full_like(count, cap)
    after = _columns(weight, weight * (total / count), count)
    before = _columns(count, total, count)
    return np.array([(new - old).sum() for new, old in zip(after, before, strict=True)])


def caps_as_they_arrive(count: Floats, seen: Ints) -> Floats:
    """The cap that one arm needs at each look, [L]; inf: none. seen: its units by then."""
    caps = np.full(len(seen), np.inf)
    if not len(count) or count.min() == count.max():
        return caps
    top: list[float] = []
    whole, least, next_unit = 0.0, np.inf, 0
    for at, units in enumerate(seen.tolist()):
        for one in count[next_unit:units].tolist():
            heappush(top, one) if len(top) < 50 else heappushpop(top, one)
            whole, least = whole + one, min(least, one)
        next_unit = units
        if 10 <= units < 50:
            caps[at] = least
        elif units >= 50:
            caps[at] = cap_of_many(sorted(top, reverse=True), whole)
    return caps


def cap_of_many(greatest: Sequence[float], whole: float) -> float:
    """greatest: 50 counts or more, in descending order. whole: the sum of all."""
    if greatest[0] <= whole / 50:
        return np.inf
    rest = whole
    for above in range(50):
        if greatest[above] <= rest / (50 - above):
            return rest / (50 - above)
        rest -= greatest[above]
    raise AssertionError("the 50th count is no more than the sum of it and all below")


def cap_of(counts: Floats) -> float:
    """The cap that an arm with these counts needs; inf: none."""
    if len(counts) < 10:
        return np.inf
    if len(counts) < 50:
        return float(counts.min())
    return cap_of_many(np.sort(counts)[::-1][:50].tolist(), float(counts.sum()))


def growing(
    rng: np.random.Generator, treated: Bools, rates: Floats, requests: Sequence[int]
) -> Moments:
    """The same units at every look, with as many requests each, about. rates: of yes, by unit."""
    count, total = np.zeros(len(treated)), np.zeros(len(treated))
    sums = np.zeros((8, 2, 1, len(requests)))
    least, most = np.full((2, 1, len(requests)), np.inf), np.full((2, 1, len(requests)), -np.inf)
    before = 0
    for at, now in enumerate(requests):
        more = rng.poisson(now - before, len(treated))
        before = now
        count, total = count + more, total + rng.binomial(more, rates)
        arms = [(treated == bool(arm)) & (count > 0) for arm in (0, 1)]
        cap = min(cap_of(count[here]) for here in arms)
        for arm, here in enumerate(arms):
            n, x = count[here], total[here]
            weight = np.minimum(n, cap)
            parts = _columns(weight, weight * (x / n), n)
            sums[:, arm, 0, at] = [part.sum() for part in parts]
            if len(n):
                least[arm, 0, at], most[arm, 0, at] = (x / n).min(), (x / n).max()
    return Moments(sums=sums, least=least, most=most)


def band(
    moments: Moments,
    look: Look,
    bounds: tuple[float | Floats, float | Floats] | None,
    *,
    one_side: bool = False,
) -> Band:
    """bounds: also by look, [L]. one_side: low and high are bounds of which each holds with
    look.alpha, by itself."""
    units, n, x, nn, xx, nx, sent, singles = moments.sums
    with np.errstate(all="ignore"):
        used = units.min(axis=0) >= 10
        pairs = np.where(used, units[0] * units[1] / (units[0] + units[1]), 0.0)
        whole = pairs.sum(axis=0)
        means = x / n
        difference = np.where(used, pairs * (means[1] - means[0]), 0.0).sum(axis=0) / whole
        factor = np.where(used, pairs / n, 0.0)
        kish = np.where(used, factor**2 * nn, 0.0).sum(axis=1)
        effective = (whole**2 / kish).min(axis=0)
        time = np.where(used, sent[0] * sent[1] / (sent[0] + sent[1]), 0.0).sum(axis=0)
        time = np.where(time > 0, time, 1.0)
        rho = tuned(look.planned, look.alpha)
        reach = np.sqrt((1 + rho / time) * (np.log((time + rho) / rho) - 2 * log(look.alpha)))
        low = np.where(used, moments.least, np.inf).min(axis=(0, 1))
        high = np.where(used, moments.most, -np.inf).max(axis=(0, 1))
        squares = np.maximum(xx - 2 * means * nx + means**2 * nn, 0.0) * units / (units - 1)
        squares += 1.5 * (nn / n) ** 2 * ((low - means) ** 2 + (high - means) ** 2)
        if bounds is not None:
            single = singles / sent
            squares += reach**2 / 3 * single * ((bounds[0] - means) ** 2 + (bounds[1] - means) ** 2)
        variance = np.where(used, factor**2 * squares, 0.0).sum(axis=(0, 1))
        error = np.sqrt(variance) / whole
        known = (effective >= look.fewest * (1 - 1e-9)) & (variance > 0)
        if one_side:
            reach = _one_sided(look)(time)
    return Band(
        difference=difference,
        low=np.where(known, difference - reach * error, -np.inf),
        high=np.where(known, difference + reach * error, np.inf),
        error=np.where(known, error, np.inf),
    )


_REACHES: dict[Look, Callable[[Floats], Floats]] = {}


def _one_sided(look: Look) -> Callable[[Floats], Floats]:
    """In standard errors, by time, between 500 points."""
    known = _REACHES.get(look)
    if known is None:
        points = np.linspace(-1.0, 18.0, 500)
        rho = tuned(look.planned, 2 * look.alpha)
        values = [one_sided(t, rho, look.alpha) / t**0.5 for t in np.exp(points).tolist()]
        known = _REACHES[look] = lambda time: np.interp(np.log(time), points, values)
    return known
