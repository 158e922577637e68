"""Many looks at an adjusted experiment: the intervals with and without the adjustment.

Written from docs/experiments-statistics.md with arrays of units, and not from the code.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from strowger_gateway.gateway.statistics.effects import Look
from tests.gateway.statistics.fleet import Band, Bools, Floats, Ints, Moments, band, cap_of

CHECK_ALPHA = 0.01


class Units(Struct, frozen=True, kw_only=True):
    """Units in the order in which they arrive, [N]; each is in one epoch, from 0.

    values: of each covariate; NaN where unknown.
    """

    treated: Bools
    count: Floats
    total: Floats
    values: Sequence[Floats]
    epochs: Ints | None = None


class Looks(Struct, frozen=True, kw_only=True):
    """By look, [L]. differs: a covariate does, so the interval is the one without adjustment.

    thetas: of each covariate at the last look.
    """

    adjusted: Band
    raw: Band
    differs: Bools
    thetas: Floats

    @property
    def low(self) -> Floats:
        return np.where(self.differs, self.raw.low, self.adjusted.low)

    @property
    def high(self) -> Floats:
        return np.where(self.differs, self.raw.high, self.adjusted.high)


def looked(
    units: Units, looks: Ints, look: Look, bounds: tuple[float, float] | None = None
) -> Looks:
    """looks: numbers of units."""
    epochs = np.zeros(len(units.treated), np.int64) if units.epochs is None else units.epochs
    number = int(epochs.max()) + 1
    most = 2 * len(units.values)
    all_totals = _Moments(number, len(looks))
    raw_totals = _Moments(number, len(looks))
    regressor_totals = [_Moments(number, len(looks)) for _ in range(most)]
    used = np.zeros((most, len(looks)), np.bool_)
    moved = np.zeros(len(looks))
    thetas = np.zeros(len(units.values))
    for at, last in enumerate(looks.tolist()):
        arm = units.treated[:last].astype(np.int64)
        cells = 2 * epochs[:last] + arm
        sent = units.count[:last]
        w = np.minimum(sent, _caps(sent, cells, number))
        t = w * (units.total[:last] / sent)
        columns = _columns([one[:last] for one in units.values], w, cells, number)
        fitted = [(place, column) for place, column in enumerate(columns) if column is not None]
        theta = _theta(w, t, [column for _, column in fitted], cells, number)
        off = sum((by * column for by, (_, column) in zip(theta, fitted, strict=True)), 0 * w)
        all_totals.add(at, sent, w, t - off, cells)
        raw_totals.add(at, sent, w, t, cells)
        moved[at] = np.sqrt((off**2).sum() / (w**2).sum())
        thetas[:] = 0
        for by, (place, column) in zip(theta, fitted, strict=True):
            regressor_totals[place].add(at, sent, w, column, cells)
            used[place, at] = True
            if place % 2 == 0:
                thetas[place // 2] = by
    ends = None if bounds is None else (bounds[0] - moved, bounds[1] + moved)
    differs = np.zeros(len(looks), np.bool_)
    number_used = np.maximum(used.sum(axis=0), 1)
    for regressors in range(1, most + 1):
        strict = Look(alpha=CHECK_ALPHA / regressors, planned=look.planned)
        for place in range(most):
            found = band(regressor_totals[place].moments, strict, None)
            apart = (found.low > 0) | (found.high < 0)
            differs |= apart & used[place] & (number_used == regressors)
    return Looks(
        adjusted=band(all_totals.moments, look, ends),
        raw=band(raw_totals.moments, look, bounds),
        differs=differs,
        thetas=thetas,
    )


class _Moments:
    def __init__(self, epochs: int, looks: int) -> None:
        self.moments = Moments(
            sums=np.zeros((8, 2, epochs, looks)),
            least=np.full((2, epochs, looks), np.inf),
            most=np.full((2, epochs, looks), -np.inf),
        )

    def add(self, at: int, sent: Floats, w: Floats, t: Floats, cells: Ints) -> None:
        number = self.moments.sums.shape[2]
        columns = (np.ones_like(w), w, t, w * w, t * t, w * t, sent, w * w / sent)
        for place, column in enumerate(columns):
            sums = np.bincount(cells, column, 2 * number)
            self.moments.sums[place, :, :, at] = sums.reshape(number, 2).T
        for cell in range(2 * number):
            own = (t / w)[cells == cell]
            if len(own):
                self.moments.least[cell % 2, cell // 2, at] = own.min()
                self.moments.most[cell % 2, cell // 2, at] = own.max()


def _caps(sent: Floats, cells: Ints, number: int) -> Floats:
    """By unit, the cap of its epoch; inf: none."""
    lowest = [
        min(cap_of(sent[cells == cell]) for cell in (2 * epoch, 2 * epoch + 1))
        for epoch in range(number)
    ]
    return np.array(lowest)[cells // 2]


def _used(cells: Ints, number: int) -> tuple[Floats, Bools]:
    """h of each epoch, and whether a unit is in an epoch that is compared."""
    n = np.bincount(cells, minlength=2 * number).reshape(number, 2).astype(np.float64)
    whole = np.maximum(n.sum(axis=1), 1)
    h = np.where(n.min(axis=1) >= 10, n[:, 0] * n[:, 1] / whole, 0.0)
    return h, (h > 0)[cells // 2]


def _columns(values: Sequence[Floats], w: Floats, cells: Ints, number: int) -> list[Floats | None]:
    """Of each covariate its value and its indicator, times the weight; `None`: not fitted."""
    _, used = _used(cells, number)
    found: list[Floats | None] = []
    for value in values:
        known = ~np.isnan(value)
        with_value, without = int((known & used).sum()), int((~known & used).sum())
        if with_value < 25:
            found += [None, None]
            continue
        mean = (value * w)[known & used].sum() / w[known & used].sum()
        share = w[known & used].sum() / w[used].sum()
        found.append(w * np.where(known, value - mean, 0.0))
        found.append(w * (known - share) if without >= 25 else None)
    return found


def _theta(w: Floats, t: Floats, columns: Sequence[Floats], cells: Ints, number: int) -> Floats:
    if not columns:
        return np.zeros(0)
    h, used = _used(cells, number)
    weights = np.bincount(cells, w, 2 * number)
    factor = np.where(used, h[cells // 2] / weights[cells], 0.0)

    def centred(column: Floats) -> Floats:
        means = np.bincount(cells, column, 2 * number) / np.maximum(weights, 1e-300)
        return factor * (column - means[cells] * w)

    r = np.stack([centred(column) for column in columns])
    left = np.einsum("ai,bi->ab", r, r)
    right = np.einsum("ai,i->a", r, centred(t))
    size = np.sqrt(np.diag(left))
    size = np.where(size > 0, size, np.inf)  # of a regressor that does not vary
    scaled = left / size / size[:, None], right / size
    return np.asarray(np.linalg.lstsq(*scaled, rcond=1e-9)[0], np.float64) / size
