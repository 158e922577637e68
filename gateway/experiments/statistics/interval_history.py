"""How an experiment's intervals move over time, in so few points that they can be kept for ever."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

POINTS = 240
"""Of one experiment, at most."""

SKEW_S = 60.0
"""By which clocks may differ; what claims to be of a later time than that is of a wrong clock."""


class Interval(Struct, frozen=True, kw_only=True):
    """Of a variant's primary metric against control, as people read it: for times a part."""

    difference: float
    low: float
    high: float


class Point(Struct, frozen=True, kw_only=True):
    """Variants without an interval yet are not in it. time: Unix seconds."""

    time: float
    intervals: Mapping[str, Interval]


def needs_point(times: Sequence[float], at: float) -> bool:
    """Whether the course needs a point at `at`: the longer it is, the farther they are apart.

    times: of its points, in order.
    """
    past = [time for time in times if time <= at + SKEW_S]
    return not past or at - past[-1] > (past[-1] - past[0]) / POINTS


def redundant(times: Sequence[float], at: float) -> tuple[float, ...]:
    """Those of the times that a course can do without once it has a point at `at`.

    Of too many it is the one that leaves the smallest gap; the first is never.
    """
    past = [time for time in times if time <= at + SKEW_S]
    gone = list(times[len(past) :])
    while len(past) >= POINTS:
        ahead = [*past[2:], at]
        gaps = [after - before for before, after in zip(past, ahead, strict=False)]
        gone.append(past.pop(1 + gaps.index(min(gaps))))
    return tuple(gone)
