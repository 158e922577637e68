"""When harm limits are tested by looks, and what each look may spend of their level.

A look is due when the requests of all arms together pass the next value of a geometric grid. That
number does not depend on the assignment, so neither does the choice of the looks. Look k is at
FIRST · RATIO^k requests, k from 0, and is wrong with probability `share(k)` · LOOKS_ALPHA at most;
the shares add up to 1, so a union over all looks keeps LOOKS_ALPHA. Group-sequential tests that
spend a level by a function of time: K. K. G. Lan and D. L. DeMets, "Discrete sequential boundaries
for clinical trials", Biometrika 1983.
"""

from typing import Final

FIRST: Final = 20.0
"""Requests at the first look."""

RATIO: Final = 1.5

LOOKS_ALPHA: Final = 0.006
"""Probability that the looks ever pause a variant that is within a harm limit, for each harm limit
and variant."""

EARLY: Final = 14
EARLY_SHARE: Final = 1 / 60
"""Of each of the first looks, up to 3,900 requests. They are for arms that fail entirely, which
little alpha finds."""

MAIN: Final = 8
MAIN_SHARE: Final = 0.08
"""Of each of the next looks, from 5,800 to 100,000 requests, which are for moderate harm."""

_REST: Final = 1 - EARLY * EARLY_SHARE - MAIN * MAIN_SHARE


def passed(requests: float) -> int:
    """Return how many looks are due by that many requests of all arms, at least 0."""
    looks, at = 0, FIRST
    while at <= requests:
        looks, at = looks + 1, at * RATIO
    return looks


def share(look: int) -> float:
    """Return the part of the level that a look may spend. look: from 0."""
    if look < EARLY:
        return EARLY_SHARE
    if look < EARLY + MAIN:
        return MAIN_SHARE
    after = look - EARLY - MAIN + 1
    return _REST / (after * (after + 1))


def alpha(spent: int, due: int) -> float:
    """Return the level of a test that stands for the looks from `spent` until before `due`.

    Looks that were missed, because many requests came between two checks, spend theirs here.
    """
    return LOOKS_ALPHA * sum(map(share, range(spent, due)))
