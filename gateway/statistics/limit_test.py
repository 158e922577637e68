"""Test at one look whether a rate in treatment exceeds control's by more than a limit.

A studentised score test for the difference of two rates, with the unit as the cluster: the variance
is the one that treatment would have *at the limit*. Errors at the limit vary less than twice as
many of them; the variance at the estimate (Wald) hides what it is meant to find.
C. P. Farrington and G. Manning, "Test statistics and sample size formulae for comparative binomial
trials", Statistics in Medicine 1990; for clusters, J. N. K. Rao and A. J. Scott, "A simple method
for the analysis of clustered binary data", Biometrics 1992: the binomial variance times a design
effect, which is estimated in each arm.
"""

from math import copysign, inf, log1p, sqrt

from msgspec import Struct

from strowger_gateway.gateway.statistics import normal
from strowger_gateway.gateway.statistics.outcomes import Cell

FEWEST_UNITS = 15
"""Units in the smaller arm, and Kish's effective number if the arms' sizes are alike."""

FEWEST_EFFECTIVE = 10.0
"""Kish's effective units in each arm."""


class LimitTest(Struct, frozen=True, kw_only=True):
    """excess: the estimate, minus the limit. error: its standard error at the limit.

    z: of a normal distribution, at the limit. skewness: of the estimate at the limit.
    """

    excess: float
    error: float
    z: float
    skewness: float

    def threshold(self, alpha: float) -> float:
        """Return the z that is exceeded at the limit with probability alpha.

        The first term of E. A. Cornish and R. A. Fisher, "Moments and cumulants in the
        specification of distributions", 1938: rates near 0 are skewed to the right.
        """
        z = normal.inv_cdf(1 - alpha)
        return z + self.skewness * (z * z - 1) / 6

    def exceeded(self, alpha: float) -> bool:
        return self.z > self.threshold(alpha)


def enough(treatment: Cell, control: Cell) -> bool:
    """True if there are units enough for this test; `randomization` is for fewer.

    Only the number of treated units enters, and sizes of all units: given these, every subset is
    equally likely to be treated, so the choice between the tests costs no level.
    """
    units = treatment.units + control.units
    sizes = (treatment.count + control.count) ** 2 / (treatment.count2 + control.count2)
    smaller = min(treatment.units, control.units)
    return smaller >= FEWEST_UNITS and sizes * smaller / units >= FEWEST_UNITS


def limit_test(
    treatment: Cell, control: Cell, *, worse_by: float, higher_is_better: bool = False
) -> LimitTest | None:
    """Compute the test from one epoch's cells of a metric with values from 0 to 1.

    worse_by: the limit, in (0, 1). `None`: too few effective units in an arm.
    """
    if min(treatment.units, control.units) < 2 or _effective(treatment, control) < FEWEST_EFFECTIVE:
        return None
    rate, base = treatment.mean, control.mean
    if higher_is_better:
        rate, base = 1 - rate, 1 - base
    excess = rate - base - worse_by
    known = (base * control.observed + 0.5) / (control.observed + 1)
    at_limit = min(known + worse_by, 1.0)
    design = _design(control, base)
    calm = design * _binomial(known) / control.observed
    if rate < 1:  # where all fail, nothing shows the design effect: control's
        design = _design(treatment, rate)
    harmed = design * _binomial(at_limit) / treatment.observed
    variance = calm + harmed
    if variance <= 0:
        return LimitTest(excess=excess, error=0.0, z=copysign(inf, excess), skewness=0.0)
    freedom = variance**2 / (calm**2 / (_kish(control) - 1) + harmed**2 / (_kish(treatment) - 1))
    return LimitTest(
        excess=excess,
        error=sqrt(variance),
        z=_normal(excess / sqrt(variance), freedom),
        skewness=harmed**2 / at_limit / variance**1.5,
    )


def _design(cell: Cell, rate: float) -> float:
    """Return the arm's variance as a multiple of the binomial one; 1 or more."""
    if not 0 < rate < 1:
        return 1.0
    mean = cell.mean
    squares = max(cell.total2 - 2 * mean * cell.product + mean * mean * cell.count2, 0.0)
    variance = squares * cell.units / (cell.units - 1) / cell.count**2
    return max(variance * cell.observed / _binomial(rate), 1.0)


def _binomial(rate: float) -> float:
    return rate * (1 - rate)


def _kish(cell: Cell) -> float:
    return cell.count**2 / cell.count2


def _effective(treatment: Cell, control: Cell) -> float:
    return min(_kish(treatment), _kish(control))


def _normal(t: float, freedom: float) -> float:
    """Return the normal quantile of Student's t.

    D. L. Wallace, "Bounds on normal approximations to Student's and the chi-square distributions",
    Annals of Mathematical Statistics 1959, the approximation of section 3.
    """
    size = (8 * freedom + 1) / (8 * freedom + 3) * sqrt(freedom * log1p(t * t / freedom))
    return copysign(size, t)
