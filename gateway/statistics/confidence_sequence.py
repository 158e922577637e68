"""Boundaries of a random walk that are valid at every look: the normal mixture boundary.

S is a sum of centred terms and `time` its variance (for terms of variance 1: their number). The
boundaries hold simultaneously at all times: P(S ever leaves) <= alpha. Derived for Brownian motion
and sub-Gaussian walks by Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", Annals of Statistics 2021, arXiv 1810.08240, section 3.2.
With an estimated variance, and for estimators that are means up to smaller terms, they hold
asymptotically: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit theory
and asymptotic confidence sequences", Annals of Statistics 2024, arXiv 2103.06476, theorem 2.2
(there rho is 1 / sqrt(our rho)).
"""

from math import exp, log, sqrt

from strowger_gateway.gateway.statistics import normal

_BISECTIONS = 60


def tuned(time: float, alpha: float) -> float:
    """Return the rho for which `two_sided` is about narrowest at `time`. alpha in (0, 1).

    rho = time / (2 log(1/alpha) + log(1 + 2 log(1/alpha))): arXiv 1810.08240, section 3.5, with
    the two leading terms of the Lambert function; within half a percent of the best width. It must
    be fixed before the data are seen.
    """
    spent = 2 * log(1 / alpha)
    return time / (spent + log(1 + spent))


def two_sided(time: float, rho: float, alpha: float) -> float:
    """Return the bound that |S| never exceeds with probability 1 − alpha. time, rho > 0.

    sqrt((time + rho) log((time + rho) / (rho alpha²))): arXiv 1810.08240, the two-sided normal
    mixture of section 3.2 with l0 = 1; arXiv 2103.06476, theorem 2.2.
    """
    total = time + rho
    return sqrt(total * (log(total / rho) - 2 * log(alpha)))


def one_sided(time: float, rho: float, alpha: float) -> float:
    """Return the bound that S never exceeds with probability 1 − alpha.

    S is not bounded from below.

    The root s of sqrt(4 rho / (time + rho)) exp(s² / (2 (time + rho))) Phi(s / sqrt(time + rho))
    = 1 / alpha: arXiv 1810.08240, the one-sided normal mixture of section 3.2. Tune its rho with
    `tuned(time, 2 * alpha)`. alpha in (0, 0.5).
    """
    total = time + rho
    target = -log(alpha) - 0.5 * log(4 * rho / total)
    # Phi >= 1/2 for s >= 0, so the root lies below the one for Phi = 1/2.
    low, high = 0.0, sqrt(2 * max(target + log(2), 0.0))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if middle * middle / 2 + log(normal.cdf(middle)) < target:
            low = middle
        else:
            high = middle
    return high * sqrt(total)


def evidence(score: float, time: float, rho: float) -> float:
    """Return the logarithm of the mixture likelihood ratio against S having no drift.

    sqrt(rho / (time + rho)) exp(S² / (2 (time + rho))): the mixture SPRT with a normal mixture of
    variance 1/rho, Johari, Pekelis and Walsh, "Always valid inference", arXiv 1512.04922, sec. 4.
    A martingale with mean 1 under no drift, so it ever reaches 1/alpha with probability <= alpha.
    """
    total = time + rho
    return 0.5 * log(rho / total) + score * score / (2 * total)


def p_value(score: float, time: float, rho: float) -> float:
    """Return the always valid p: without drift it is ever <= alpha with probability <= alpha.

    min(1, 1 / evidence), arXiv 1512.04922, section 3. `two_sided` excludes 0 exactly when p is
    below alpha.
    """
    return min(1.0, exp(-evidence(score, time, rho)))
