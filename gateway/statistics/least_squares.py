"""Solve the normal equations of a few regressors, some of which may depend on the others."""

from collections.abc import Sequence
from math import sqrt

DEPENDENT = 1e-8
"""Part of a regressor's variance that the others leave, below which it depends on them."""

CONSTANT = 1e-9
"""Part of a regressor's square, without its means, below which it does not vary."""


def solved(
    left: Sequence[Sequence[float]], right: Sequence[float], scale: Sequence[float]
) -> list[float]:
    """Return x with left · x = right; 0 for regressors that do not vary or depend on others.

    left:  symmetric, not negative: sums of products of centred regressors, [n, n].
    scale: sums of squares of the regressors before they were centred, [n].

    By Gauss-Jordan elimination of regressors scaled to variance 1; the one with the largest
    remaining variance is the next pivot: Golub and Van Loan, Matrix Computations, section 4.2.8.
    """
    size = len(right)
    used = [place for place in range(size) if left[place][place] > CONSTANT * scale[place]]
    units = {place: sqrt(left[place][place]) for place in used}
    rows = {
        one: {other: left[one][other] / units[one] / units[other] for other in used} for one in used
    }
    goal = {place: right[place] / units[place] for place in used}
    waiting, done = list(used), list[int]()
    while waiting:
        pivot = max(waiting, key=lambda place: rows[place][place])
        if rows[pivot][pivot] < DEPENDENT:
            break
        waiting.remove(pivot)
        done.append(pivot)
        by = rows[pivot][pivot]
        rows[pivot] = {other: value / by for other, value in rows[pivot].items()}
        goal[pivot] /= by
        for row in used:
            if row != pivot:
                by = rows[row][pivot]
                goal[row] -= by * goal[pivot]
                rows[row] = {
                    other: value - by * rows[pivot][other] for other, value in rows[row].items()
                }
    return [goal[place] / units[place] if place in done else 0.0 for place in range(size)]
