"""The standard normal distribution."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statistics import NormalDist


def cdf(x: float) -> float:
    """The probability of a value of at most `x`."""
    return _normal().cdf(x)


def inv_cdf(p: float) -> float:
    """The value that is not exceeded with probability `p`, between 0 and 1, both exclusive."""
    return _normal().inv_cdf(p)


@cache
def _normal() -> "NormalDist":
    # Imported on first use: its imports take 0.3 MB, and few workers have experiments.
    from statistics import NormalDist

    return NormalDist()
