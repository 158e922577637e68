"""Test a harm limit by the assignment itself, for arms too small for a normal approximation.

Which units are treated is a known hash (`assignment`): within an epoch, given the active units and
how many of them are treated, every subset of that size is equally likely. So the treated units'
errors are compared with those of all other subsets (R. A. Fisher, The Design of Experiments, 1935;
G. W. Imbens and D. B. Rubin, Causal Inference, 2015, chapter 5).

The null: treatment makes any request fail that would not have failed with a probability of at most
`worse_by`, whatever happens to other requests. With y the errors that a unit would have had in
control, and e those that treatment adds, a treated unit shows y + e. Bounds on e hold for all units
and for their sum, except with probability gamma. A subset A beats the treated T in y only if it has
at least T's sum of y + e when T's units that are not in A are reduced by their bounds; so the part
of the subsets that do, plus gamma, is a p-value. (R. L. Berger and D. D. Boos, "P values maximized
over a confidence set for the nuisance parameter", JASA 1994.) Subtracting `worse_by` from the rates
instead would be wrong: what treatment adds varies, too, and may vary more than control's errors.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import ceil, comb, exp, log, log1p, sqrt
from random import Random
from typing import Final

from msgspec import Struct

LIKENESS: Final = 0.05
"""A unit's errors weigh 1 / (1 + LIKENESS (n − 1)) with n requests, as the mean of n values with
that correlation. So a unit counts as 20 requests at most: the errors of one that sends thousands
cannot hide those of others, and few requests of one with a high rate weigh little."""

MOST_ENUMERATED: Final = 100_000
"""Subsets that are enumerated; of more, a sample is drawn."""

MOST_STEPS: Final = 2_000_000
"""Units in all drawn subsets together: half a second."""

RESERVED: Final = 0.25
"""Gamma, as a part of the level."""

PERCENT: Final = (5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)
"""Shares of failing requests that `smallest_seen` considers."""

_ROUNDING: Final = 1e-9


class UnitErrors(Struct, frozen=True, kw_only=True, order=True):
    """One unit in one epoch. requests: at least 1. errors: 0 to `requests`."""

    requests: int
    errors: int

    @property
    def weight(self) -> float:
        return 1 / (1 + LIKENESS * (self.requests - 1))


def p_value(
    treated: Sequence[UnitErrors],
    others: Sequence[UnitErrors],
    *,
    worse_by: float,
    alpha: float,
    seed: str,
) -> float:
    """Return a p-value for the null above: p <= alpha has a probability of at most alpha.

    treated, others: the active units of the epoch. worse_by: above 0. alpha: of this test, in
    (0, 1); p is exact enough to decide at this level, and not valid for others. seed: of the draws,
    if there are too many subsets to enumerate; the order of the units does not matter.
    """
    if not treated or not others:
        return 1.0
    gamma = RESERVED * alpha / 2
    each = gamma / len(treated)
    scores = [(unit.weight * unit.errors, unit.weight * unit.errors) for unit in others]
    for unit in treated:
        sure = max(unit.errors - most_added(unit.requests, worse_by, each), 0)
        scores.append((unit.weight * unit.errors, unit.weight * sure))
    shown, sure = (sum(one[place] for one in scores[len(others) :]) for place in (0, 1))
    reach = shown - _added(treated, worse_by, gamma), sure
    beating = _beating(sorted(scores), len(treated), reach, (1 - RESERVED) * alpha, seed)
    return min(1.0, beating + RESERVED * alpha)


def most_added(requests: int, worse_by: float, gamma: float) -> int:
    """Return the failures that treatment adds to a unit, exceeded with probability gamma at most.

    A quantile of the binomial distribution, at most `requests`.
    """
    if worse_by >= 1:
        return requests
    chance = exp(requests * log1p(-worse_by))
    failures, left = 0, 1 - chance
    while left > gamma and failures < requests:
        chance *= (requests - failures) / (failures + 1) * worse_by / (1 - worse_by)
        failures += 1
        left -= chance
    return failures


def fewest_units(share: float, alpha: float) -> int:
    """Return how many active units a look of level alpha needs to see an arm that fails entirely.

    share: of the treatment, of its units and control's; 0 to 1, where both have one at least.
    """
    needed = 1 / ((1 - RESERVED) * alpha)
    units = max(ceil(1 / max(share, _ROUNDING)), 2)
    while comb(units, min(max(int(units * share + _ROUNDING), 1), units - 1)) < needed:
        units += 1
    return units


def smallest_seen(
    treated: Sequence[UnitErrors],
    others: Sequence[UnitErrors],
    *,
    worse_by: float,
    alpha: float,
) -> float | None:
    """Return about which share of every treated unit's requests has to fail to be seen at alpha.

    `None`: not even all. Others fail as they do. By the bound of W. Hoeffding, "Probability
    inequalities for sums of bounded random variables", JASA 1963, sections 2 and 6, so fewer can
    suffice.
    """
    if not treated or not others:
        return None
    gamma, level = RESERVED * alpha / 2, (1 - RESERVED) * alpha
    added = _added(treated, worse_by, gamma)
    known = Counter(unit.weight * unit.errors for unit in others)
    kinds = Counter((unit.requests, unit.weight) for unit in treated)
    each = {size: most_added(size, worse_by, gamma / len(treated)) for size, _ in kinds}
    alone = 1 / comb(len(treated) + len(others), len(treated)) <= level

    def seen(part: float) -> bool:
        if alone and max(known) < min(w * (part * size - each[size]) for size, w in kinds):
            return True
        failing = Counter({part * size * weight: many for (size, weight), many in kinds.items()})
        reach = sum(score * many for score, many in failing.items()) - added
        return _bound(failing, known, reach) <= level

    low, high = 0, len(PERCENT)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(PERCENT[middle] / 100) else (middle + 1, high)
    return PERCENT[low] / 100 if low < len(PERCENT) else None


def _added(treated: Sequence[UnitErrors], worse_by: float, gamma: float) -> float:
    """Return a bound on the score that treatment adds, exceeded with probability gamma at most.

    Bernstein's inequality for independent terms of 0 or a unit's weight: S. Boucheron, G. Lugosi
    and P. Massart, Concentration Inequalities, 2013, corollary 2.11.
    """
    mean = worse_by * sum(unit.weight * unit.requests for unit in treated)
    spread = worse_by * sum(unit.weight**2 * unit.requests for unit in treated)
    third = max(unit.weight for unit in treated) * -log(gamma) / 3
    return mean + third + sqrt(third * third - 2 * spread * log(gamma))


def _beating(
    scores: Sequence[tuple[float, float]],
    treated: int,
    reach: tuple[float, float],
    level: float,
    seed: str,
) -> float:
    """Return the part of the subsets of `treated` scores with sums of at least `reach`, both.

    Not exact above `level`. A drawn sample of subsets gives (1 + hits) / (1 + draws), which is
    valid with any number of draws (B. Phipson and G. K. Smyth, Statistical Applications in Genetics
    and Molecular Biology 2010), and ends once it cannot get below the level (J. Besag and
    P. Clifford, "Sequential Monte Carlo p-values", Biometrika 1991).
    """
    most = len(scores) - treated
    side = min(treated, most)
    totals = [sum(one[place] for one in scores) for place in (0, 1)]
    slack = _ROUNDING * (1 + totals[0])

    def beats(subset: Sequence[tuple[float, float]]) -> bool:
        for place in (0, 1):
            found = sum([one[place] for one in subset])
            if (found if treated <= most else totals[place] - found) < reach[place] - slack:
                return False
        return True

    subsets = comb(len(scores), side)
    if subsets <= MOST_ENUMERATED:
        found, most_hits = 0, level * subsets
        for subset in combinations(scores, side):
            found += beats(subset)
            if found > most_hits:
                break
        return found / subsets
    draws = min(ceil(4 / level), MOST_STEPS // side)
    if 1 / (1 + draws) > level:
        return 1.0
    random, hits = Random(seed), 0
    for drawn in range(1, draws + 1):
        hits += beats(random.sample(scores, side))
        if 1 + hits > level * (1 + draws):
            return hits / drawn
    return (1 + hits) / (1 + draws)


def _bound(treated: Counter[float], others: Counter[float], reach: float) -> float:
    """Bound the part of the subsets whose sum is at least `reach`: Chernoff, with replacement.

    treated, others: how many units have each score.
    """
    scores = treated + others
    highest = max(scores)
    if reach <= 0 or highest <= 0:
        return 1.0
    size, units = treated.total(), scores.total()
    best = 1.0
    for step in range(1, 41):
        slope = step / highest
        mean = sum(many * exp(slope * (one - highest)) for one, many in scores.items()) / units
        power = size * log(mean) + slope * (size * highest - reach)
        best = min(best, exp(min(power, 0.0)))  # above 1 it bounds nothing, and may overflow
    return max(best, 1 / comb(units, size))
