"""An interval for the mean of bounded values that is valid at every look, without approximation.

A gambler starts with 1 and bets that the mean is not m: after each value x the capital is
multiplied by 1 + b (x − m). If the mean is m, no strategy gains on average, so the capital ever
reaches 1/alpha with probability at most alpha (Ville), and the m at which it has not are a
confidence sequence: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by
betting", JRSS B 2024, arXiv 2010.09686, section 4. Here the capital is divided equally over two
sides, mean above and below m, and on each side over a fixed set of bets (a mixture as in their
section on the gambler's grid, with weights): shares 2^-1 to 2^-10 of the largest bet that cannot
ruin, most of it on the bets that are best at a few hundred values. Fixed bets make the capital a
function of how often each value came, whatever their order.

The values have to be independent with the same mean: give one value per unit.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import exp, log, log1p
from typing import Final

from msgspec import Struct

STEPS: Final = 10
"""Bets on each side: shares 2^-1 to 2^-STEPS of the largest."""

CENTRE: Final = 3.0
"""The step with the most capital: the best bet at some 500 yes-or-no values."""

SPREAD: Final = 8.0
"""Twice the variance of the capital over the steps."""

_BISECTIONS: Final = 50


class BettingInterval(Struct, frozen=True, kw_only=True):
    """mean, low, high: in [0, 1]. p: always valid, against the mean being `against`."""

    values: int
    mean: float
    low: float
    high: float
    p: float

    @property
    def known(self) -> bool:
        """False without values: the interval is then everything."""
        return self.values > 0


def betting_interval(
    values: Iterable[float], *, alpha: float = 0.05, against: float = 0.5
) -> BettingInterval:
    """Return the interval of the mean of independent values in [0, 1].

    alpha: the probability that the interval ever misses the mean, over all numbers of values.
    against: for p, in (0, 1).
    """
    counts = Counter(values)
    count = sum(counts.values())
    if not count:
        return BettingInterval(values=0, mean=0.5, low=0.0, high=1.0, p=1.0)
    mean = sum(value * times for value, times in counts.items()) / count
    enough = -log(alpha)
    low = _boundary(counts, mean, 0.0, enough) if mean > 0 else 0.0
    high = _boundary(counts, mean, 1.0, enough) if mean < 1 else 1.0
    p = min(1.0, exp(-capital(counts, against)))
    return BettingInterval(values=count, mean=mean, low=low, high=high, p=p)


def capital(counts: Mapping[float, int], m: float) -> float:
    """Return the logarithm of the gambler's capital against a mean of m, in (0, 1).

    counts: how often each value came.
    """
    terms: list[float] = []
    for step in range(1, STEPS + 1):
        share = 2.0**-step
        weight = log(_WEIGHTS[step - 1] / 2)
        up, down = share / m, share / (1 - m)
        terms.append(weight + sum(n * log1p(up * (x - m)) for x, n in counts.items()))
        terms.append(weight + sum(n * log1p(down * (m - x)) for x, n in counts.items()))
    most = max(terms)
    return most + log(sum(exp(term - most) for term in terms))


def _boundary(counts: Mapping[float, int], inside: float, outside: float, enough: float) -> float:
    """Return where the capital reaches `enough` between the mean and an end of the range."""
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        if capital(counts, middle) >= enough:
            outside = middle
        else:
            inside = middle
    return outside


def _weights() -> tuple[float, ...]:
    raw = [exp(-((step - CENTRE) ** 2) / SPREAD) for step in range(1, STEPS + 1)]
    return tuple(one / sum(raw) for one in raw)


_WEIGHTS: Final = _weights()
