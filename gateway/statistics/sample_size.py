"""Plan the sample size of an experiment, and estimate the units that are still missing."""

from collections.abc import Sequence
from math import ceil, inf, isfinite, sqrt

from msgspec import Struct

from strowger_gateway.gateway.statistics import confidence_sequence as intervals
from strowger_gateway.gateway.statistics import normal
from strowger_gateway.gateway.statistics.effects import Effect, Look

_MOST_PAIRS = 1e12
_BISECTIONS = 100
_SMALLEST_SHARE = 1e-9


class SamplePlan(Struct, frozen=True, kw_only=True):
    """The required units, control's first, in the order of the shares.

    units:      with intervals that are valid at every look; total: their sum.
    fixed:      with one z-test at the end and no look before; fixed_total: their sum.
    difference: the difference to detect, absolute.
    alpha:      for each treatment.
    pairs:      n1 n0 / (n1 + n0) of control and the smallest treatment, for `Look.planned`.
    """

    units: tuple[int, ...]
    total: int
    fixed: tuple[int, ...]
    fixed_total: int
    difference: float
    alpha: float
    pairs: float


def plan(
    *,
    baseline: float,
    lift: float,
    relative: bool = False,
    alpha: float = 0.05,
    power: float = 0.8,
    shares: Sequence[float] = (1.0, 1.0),
    sd: float | None = None,
) -> SamplePlan:
    """Plan the sample that detects a lift over control's baseline with that power.

    relative: the lift is relative to the baseline. shares: of control and then of each treatment;
    any scale. sd: of one unit's mean, see `unit_sd`; without it the metric is a boolean that a unit
    gives once, with variance p (1 − p). alpha is divided by the number of treatments. For a
    "log" metric lift is log(1 + part) and sd that of the logarithms.

    A difference d is detected by the end at the latest if the estimate exceeds the interval's
    radius there, so total = (s0²/q0 + s1²/q1) ((c + z(power)) / d)², with c the radius in standard
    errors at the time it is tuned for (3.04 for 0.05). The fixed test has z(1 − alpha/2) in place
    of c. Looking earlier can only detect more, so the power is at least the requested one.

    Raises ValueError naming the argument that is out of its range.
    """
    difference = lift * baseline if relative else lift
    _check(alpha=alpha, power=power, shares=shares, difference=difference, sd=sd)
    variances = _variance(baseline, sd, "baseline"), _variance(baseline + difference, sd, "lift")
    each = alpha / (len(shares) - 1)
    widths = radius(each), normal.inv_cdf(1 - each / 2)
    return _planned(variances, widths, difference, each, power, shares)


def plan_clause(
    *,
    baseline: float,
    apart: float,
    better: bool,
    alpha: float = 0.05,
    power: float = 0.8,
    shares: Sequence[float] = (1.0, 1.0),
    sd: float | None = None,
) -> SamplePlan:
    """Plan the sample with which one clause of a decision holds (see `decision`).

    better: the treatment is better by `apart`; else it is as good as control, and `apart` is how
    much worse it may be. The other arguments, and the errors, are those of `plan`. The bound is
    one-sided: c is 2.77 standard errors for 0.05, and z(1 − alpha) for one look at the end.
    """
    _check(alpha=alpha, power=power, shares=shares, difference=apart, sd=sd)
    variance = _variance(baseline, sd, "baseline")
    inside = sd is not None or 0 <= baseline + apart <= 1
    other = _variance(baseline + apart if inside else baseline - apart, sd, "apart")
    each = alpha / (len(shares) - 1)
    rho = intervals.tuned(1.0, 2 * each)
    widths = intervals.one_sided(1.0, rho, each), normal.inv_cdf(1 - each)
    return _planned((variance, other if better else variance), widths, apart, each, power, shares)


def _planned(
    variances: tuple[float, float],
    widths: tuple[float, float],
    difference: float,
    each: float,
    power: float,
    shares: Sequence[float],
) -> SamplePlan:
    """Compute the plan.

    variances: of a unit of control and of a treatment. widths: in standard errors, of the bound
    that is valid at every look and of the bound for one look.
    """
    q = [share / sum(shares) for share in shares]
    smallest = min(q[1:])
    variance = variances[0] / q[0] + variances[1] / smallest
    reached = normal.inv_cdf(power)
    try:
        totals = [variance * ((width + reached) / difference) ** 2 for width in widths]
        units, fixed = (tuple(ceil(total * share) for share in q) for total in totals)
    except (OverflowError, ZeroDivisionError):
        message = f"lift: the sample that detects a difference of {difference:g} is too large"
        raise ValueError(message) from None
    pairs = totals[0] * q[0] * smallest / (q[0] + smallest)
    return SamplePlan(
        units=units,
        total=sum(units),
        fixed=fixed,
        fixed_total=sum(fixed),
        difference=difference,
        alpha=each,
        pairs=pairs,
    )


def radius(alpha: float) -> float:
    """Return the interval's radius, in standard errors, at the time that it is tuned for."""
    return intervals.two_sided(1.0, intervals.tuned(1.0, alpha), alpha)


def unit_sd(sd: float, *, requests: float, spread: float, correlation: float) -> float:
    """Return the sd of a unit's part in a mean per request, if units send several requests.

    sd: of single requests. requests: a unit's mean number of them. spread: the sd of that number
    divided by its mean. correlation: of two requests of one unit, 0 to 1 (intraclass).
    sd² / requests · (1 + ((spread² + 1) requests − 1) correlation): S. Eldridge, D. Ashby and
    S. Kerry, "Sample size for cluster randomized trials: effect of coefficient of variation of
    cluster size", International Journal of Epidemiology 2006.
    """
    effect_of_design = 1 + ((spread**2 + 1) * requests - 1) * correlation
    return sd * sqrt(effect_of_design / requests)


def units_to_go(found: Effect, look: Look, *, smallest: float | None, power: float = 0.8) -> float:
    """Estimate how many more units, split as so far, bring a verdict; inf if no end is in sight.

    smallest: the least difference that matters. Until the sample that detects it with that power is
    complete, its missing part. After that, and without `smallest`: until the interval excludes 0,
    or every difference of `smallest`, if the estimate stays.
    """
    if not found.known or found.time == 0:
        return inf
    step = found.error * sqrt(found.time)
    reached = normal.inv_cdf(power)
    needed = found.time
    if smallest is not None:
        needed = _time_until(smallest / step, look, extra=reached)
    if needed <= found.time:
        apart = abs(found.difference)
        goal = apart if smallest is None else max(apart, smallest - apart)
        needed = _time_until(goal / step, look, extra=0.0)
    return max(needed - found.time, 0.0) * found.units / found.time


def one_sided_to_go(found: Effect, look: Look, *, apart: float) -> float:
    """Estimate how many more units until a one-sided bound excludes a value.

    apart: the distance of the value from the estimate, which is assumed to stay. Returns inf if no
    end is in sight.
    """
    if not found.known or found.time == 0 or apart <= 0:
        return inf
    goal = apart / (found.error * sqrt(found.time))
    needed = _time_until(goal, look, extra=0.0, sides=1)
    return max(needed - found.time, 0.0) * found.units / found.time


def _time_until(goal: float, look: Look, *, extra: float, sides: int = 2) -> float:
    """Return the time when radius + extra standard errors of a unit-variance walk reach `goal`."""
    rho = intervals.tuned(look.planned, look.alpha if sides == 2 else 2 * look.alpha)
    boundary = intervals.two_sided if sides == 2 else intervals.one_sided

    def too_wide(time: float) -> bool:
        return boundary(time, rho, look.alpha) / time + extra / sqrt(time) > goal

    if too_wide(_MOST_PAIRS):
        return inf
    low, high = 0.0, _MOST_PAIRS
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if too_wide(middle):
            low = middle
        else:
            high = middle
    return high


def _variance(mean: float, sd: float | None, name: str) -> float:
    if sd is not None:
        return sd * sd
    if not 0 <= mean <= 1:
        raise ValueError(f"{name}: a rate of {mean:g} is outside 0 to 1; give sd for other metrics")
    return mean * (1 - mean)


def _check(
    *, alpha: float, power: float, shares: Sequence[float], difference: float, sd: float | None
) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: {alpha:g} is not between 0 and 1")
    if not 0.5 <= power < 1:
        raise ValueError(f"power: {power:g} is not between 0.5 and 1")
    if len(shares) < 2 or not all(0 < share < inf for share in shares):
        raise ValueError("shares: at least two are needed, each above 0")
    if min(shares) / sum(shares) < _SMALLEST_SHARE:
        raise ValueError(f"shares: the smallest is less than {_SMALLEST_SHARE:g} of all")
    if difference == 0:
        raise ValueError("lift: no sample can find a difference of 0")
    if not isfinite(difference):
        raise ValueError(f"lift: a difference of {difference} is not a number to look for")
    if sd is not None and not 0 < sd < inf:
        raise ValueError(f"sd: {sd:g} is not above 0, or not a number")
