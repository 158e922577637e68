"""How much of an interval's width is due to a metric's declared range, and a range that costs less.

Observations that a small arm has not yet seen are added at the ends of the range
(`variance.RARE`). If the range is far wider than the values, they are nearly all of the width. Then
the interval is that of the mean of values up to a limit that no value has come near: greater values
would count as the limit, as with a contract's cap.
"""

from collections.abc import Iterable
from math import floor, isfinite, log10

from msgspec import Struct

from strowger_gateway.gateway.statistics.effects import Look, effect
from strowger_gateway.gateway.statistics.outcomes import Outcomes

MOST_OF_WIDTH = 0.25
"""Share of an interval's width that a declared range may cost."""

FARTHER = 2.0
"""How many times as far as the farthest value the limit is, at least."""

_STEPS = (1.0, 2.0, 5.0, 10.0)


class ValueRange(Struct, frozen=True, kw_only=True):
    """The range that an interval uses.

    bounds:       of single observations, as they count.
    cost:         share of the width that is due to the declared range, 0 to 1.
    limit:        a round number, at least FARTHER times the farthest value.
    limited:      values beyond ± limit would count as the limit.
    limited_cost: the share of the width that the range would cost if it ended at the limit.
    """

    bounds: tuple[float, float]
    cost: float
    limit: float
    limited: bool
    limited_cost: float


def used_range(
    outcomes: Outcomes,
    *,
    control: str,
    treatments: Iterable[str],
    look: Look,
    declared: tuple[float, float],
    seen: tuple[float, float],
) -> ValueRange | None:
    """Return the range to use; `None` without an interval, or if the values fill the range.

    declared: least and greatest valid value. seen: least and greatest value of all variants.
    """
    farthest = max(map(abs, seen))
    if not farthest:
        return None
    limit = round_up(FARTHER * farthest)
    bounds = max(declared[0], -limit), min(declared[1], limit)
    if bounds == declared:
        return None

    def error(variant: str, ends: tuple[float, float] | None) -> float:
        return effect(outcomes, control=control, treatment=variant, look=look, bounds=ends).error

    cost = limited = 0.0
    for variant in treatments:
        alone = error(variant, None)
        if isfinite(alone):
            cost = max(cost, 1 - alone / error(variant, declared))
            limited = max(limited, 1 - alone / error(variant, bounds))
    if not cost:
        return None
    over = cost > MOST_OF_WIDTH
    return ValueRange(
        bounds=bounds if over else declared,
        cost=cost,
        limit=limit,
        limited=over,
        limited_cost=limited,
    )


def round_up(value: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is at least the value, above 0."""
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in _STEPS if step * power >= value * (1 - 1e-12))


def range_alone(width: float, reach: float, observations: float) -> float:
    """Return the half width that a range adds by itself to the interval of one arm's mean.

    c² / 3 observations at a bound, `width` away from a mean near the other: c² B / (√3 n).
    """
    return reach**2 * width / (3**0.5 * observations)
