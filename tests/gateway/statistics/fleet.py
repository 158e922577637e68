"""Many looks at an experiment at once: the results of `effect` as arrays over looks.

Written from docs/experiments-statistics.md and not from the code, so that each checks the other.
Units arrive in their order, whole, or (`growing`) all units are there and their requests arrive.
"""

from collections.abc import Callable, Sequence
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
    """sums: [6, 2 arms, E epochs, L looks] of 1, n, x, n², x², n·x over units with n observations
    of sum x. least, most: [2, E, L] of x / n.
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
    columns = np.stack([np.ones_like(count), count, total, count**2, total**2, count * total])
    number = 1 if epochs is None else int(epochs.max()) + 1
    sums = np.zeros((6, 2, number, len(looks)))
    least, most = (
        np.full((2, number, len(looks)), np.inf),
        np.full((2, number, len(looks)), -np.inf),
    )
    means = total / count
    for epoch in range(number):
        for arm in (0, 1):
            here = treated == bool(arm)
            if epochs is not None:
                here = here & (epochs == epoch)
            sums[:, arm, epoch] = np.cumsum(columns * here, axis=1)[:, looks - 1]
            low, high = np.where(here, means, np.inf), np.where(here, means, -np.inf)
            least[arm, epoch] = np.minimum.accumulate(low)[looks - 1]
            most[arm, epoch] = np.maximum.accumulate(high)[looks - 1]
    return Moments(sums=sums, least=least, most=most)


def growing(
    rng: np.random.Generator, treated: Bools, rates: Floats, requests: Sequence[int]
) -> Moments:
    """The same units at every look, with as many requests each, about. rates: of yes, by unit."""
    count, total = np.zeros(len(treated)), np.zeros(len(treated))
    sums = np.zeros((6, 2, 1, len(requests)))
    least, most = np.full((2, 1, len(requests)), np.inf), np.full((2, 1, len(requests)), -np.inf)
    before = 0
    for at, now in enumerate(requests):
        more = rng.poisson(now - before, len(treated))
        before = now
        count, total = count + more, total + rng.binomial(more, rates)
        for arm in (0, 1):
            here = (treated == bool(arm)) & (count > 0)
            n, x = count[here], total[here]
            parts = (np.ones_like(n), n, x, n * n, x * x, n * x)
            sums[:, arm, 0, at] = [part.sum() for part in parts]
            if len(n):
                least[arm, 0, at], most[arm, 0, at] = (x / n).min(), (x / n).max()
    return Moments(sums=sums, least=least, most=most)


def band(
    moments: Moments,
    look: Look,
    bounds: tuple[float, float] | None,
    *,
    one_side: bool = False,
) -> Band:
    """one_side: low and high are bounds of which each holds with look.alpha, by itself."""
    units, n, x, nn, xx, nx = moments.sums
    with np.errstate(all="ignore"):
        used = units.min(axis=0) >= 10
        pairs = np.where(used, units[0] * units[1] / (units[0] + units[1]), 0.0)
        whole = pairs.sum(axis=0)
        means = x / n
        difference = np.where(used, pairs * (means[1] - means[0]), 0.0).sum(axis=0) / whole
        factor = np.where(used, pairs / n, 0.0)
        kish = np.where(used, factor**2 * nn, 0.0).sum(axis=1)
        effective = (whole**2 / kish).min(axis=0)
        time = np.where(used, n[0] * n[1] / (n[0] + n[1]), 0.0).sum(axis=0)
        time = np.where(time > 0, time, 1.0)
        rho = tuned(look.planned, look.alpha)
        reach = np.sqrt((1 + rho / time) * (np.log((time + rho) / rho) - 2 * log(look.alpha)))
        low = np.where(used, moments.least, np.inf).min(axis=(0, 1))
        high = np.where(used, moments.most, -np.inf).max(axis=(0, 1))
        squares = np.maximum(xx - 2 * means * nx + means**2 * nn, 0.0) * units / (units - 1)
        squares += 1.5 * nn / units * ((low - means) ** 2 + (high - means) ** 2)
        if bounds is not None:
            squares += reach**2 / 3 * ((bounds[0] - means) ** 2 + (bounds[1] - means) ** 2)
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
