"""The history of an experiment's intervals, in so few points that they can be stored for ever."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

POINTS = 240
"""Maximum number of points of one experiment."""

SKEW_S = 60.0
"""Maximum difference of clocks; a point farther in the future comes from a wrong clock."""


class Interval(Struct, frozen=True, kw_only=True):
    """The interval of a variant's primary metric against control; for times relative."""

    difference: float
    low: float
    high: float


class Point(Struct, frozen=True, kw_only=True):
    """The intervals at one time, Unix seconds; variants without an interval yet are missing."""

    time: float
    intervals: Mapping[str, Interval]


def needs_point(times: Sequence[float], at: float) -> bool:
    """True if the history needs a point at `at`: the longer it is, the larger the gaps.

    times: of its points, in order.
    """
    past = [time for time in times if time <= at + SKEW_S]
    return not past or at - past[-1] > (past[-1] - past[0]) / POINTS


def redundant(times: Sequence[float], at: float) -> tuple[float, ...]:
    """Return the times of points that a history can drop once it has a point at `at`.

    If there are too many, those that leave the smallest gaps; never the first.
    """
    past = [time for time in times if time <= at + SKEW_S]
    gone = list(times[len(past) :])
    while len(past) >= POINTS:
        ahead = [*past[2:], at]
        gaps = [after - before for before, after in zip(past, ahead, strict=False)]
        gone.append(past.pop(1 + gaps.index(min(gaps))))
    return tuple(gone)
