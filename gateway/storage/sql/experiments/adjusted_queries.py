"""Compute the moments of `gateway/statistics/adjustment.py` in the database."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any

from strowger_gateway.gateway.statistics.adjustment import (
    Adjusted,
    FittedCovariate,
    Joint,
    JointCell,
    JointLink,
    Matrix,
    Vector,
    adjusted,
    alone,
    compared,
    fit,
)
from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes, Per, Place, SharedUnits
from strowger_gateway.gateway.storage.sql.database import Session, Value
from strowger_gateway.gateway.storage.sql.experiments.exclusions import IN
from strowger_gateway.gateway.storage.sql.experiments.outcome_queries import outcomes

PAST = "past"
"""The covariate that is the unit's own mean of the metric before the comparison; any other one is
the name of a metric, of which a unit has its mean in the same epoch."""

_BEFORE = """(SELECT SUM(q.total) / CAST(SUM(q.count) AS DOUBLE PRECISION) FROM experiment_units q
    WHERE q.experiment = {one}.experiment AND q.metric = {one}.metric AND q.unit = {one}.unit
    AND q.epoch < {since})"""
_SAME_EPOCH = """LEFT JOIN experiment_units {name} ON {name}.experiment = {one}.experiment
    AND {name}.metric = '{metric}' AND {name}.unit = {one}.unit AND {name}.epoch = {one}.epoch
    AND {name}.variant = {one}.variant"""
_ROWS = """SELECT a.epoch AS epoch, a.variant AS variant, {columns}
    FROM experiment_units a {joins}
    WHERE a.experiment = ? AND a.metric = ? AND a.epoch >= {since}
    AND {kept}"""
_PAIRS = """SELECT a.epoch AS epoch, a.variant AS variant, b.epoch AS other_epoch,
    b.variant AS other_variant, {columns}
    FROM experiment_units a JOIN experiment_units b ON b.experiment = a.experiment
    AND b.metric = a.metric AND b.unit = a.unit AND (a.epoch, a.variant) < (b.epoch, b.variant)
    {joins} WHERE a.experiment = ? AND a.metric = ? AND a.epoch >= {since}
    AND {kept}"""
# Of one end: the observations n, their sum x and the cap k; from them, the weight and the total.
_READ = """CAST({one}.count AS DOUBLE PRECISION) AS n{one}, {one}.total AS x{one},
    {cap} AS k{one}"""
_WEIGHED = """CASE WHEN n{one} > k{one} THEN k{one} ELSE n{one} END AS w{one},
    CASE WHEN n{one} > k{one} THEN k{one} * (x{one} / n{one}) ELSE x{one} END AS t{one}"""
# Materialised: both databases would otherwise read a unit's past once for each use of it.
_CELLS = """WITH s AS ({rows}), u AS MATERIALIZED (SELECT epoch, variant, {weighed} FROM s)
    SELECT epoch, variant, {sums} FROM u GROUP BY epoch, variant ORDER BY epoch, variant"""
_LINKS = """WITH s AS ({rows}), u AS MATERIALIZED
    (SELECT epoch, variant, other_epoch, other_variant, {weighed} FROM s)
    SELECT epoch, variant, other_epoch, other_variant, {sums} FROM u
    GROUP BY epoch, variant, other_epoch, other_variant"""


class AdjustedQueries:
    """The queries for some covariates.

    values, link_values: what `cells` and `ranges`, and `links`, take first; `ranges` takes the
    values of `_OFF` of each covariate in addition, twice.
    """

    def __init__(
        self,
        experiment: str,
        metric: str,
        covariates: Sequence[str],
        *,
        since: int,
        highest: Mapping[int, float],
    ) -> None:
        """since: the first epoch that is compared. highest: as in `outcome_queries.queries`."""
        self._covariates = tuple(covariates)
        self._since = since
        cases = " WHEN ? THEN CAST(? AS DOUBLE PRECISION)" * len(highest)
        self._cap = f"CASE {{0}}.epoch{cases} END" if highest else "CAST(NULL AS DOUBLE PRECISION)"
        caps = tuple(value for pair in highest.items() for value in pair)
        self.values: tuple[Value, ...] = (*caps, experiment, metric)
        self.link_values: tuple[Value, ...] = (*caps, *caps, experiment, metric)
        rows, weighed = self._rows(_ROWS, "a"), self._weighed("a")
        number = len(covariates)
        self.cells = _CELLS.format(rows=rows, weighed=weighed, sums=", ".join(_cell_sums(number)))
        self.links = _LINKS.format(
            rows=self._rows(_PAIRS, "ab"),
            weighed=self._weighed("ab"),
            sums=", ".join(_link_sums(number)),
        )
        kept = " - ".join(["ta / wa", *(_OFF.format(z=f"za{place}") for place in range(number))])
        ends = f"MIN({kept}), MAX({kept})"
        self.ranges = _CELLS.format(rows=rows, weighed=weighed, sums=ends)

    def _rows(self, query: str, ends: str) -> str:
        columns = [_READ.format(one=one, cap=self._cap.format(one)) for one in ends]
        columns += [f"{self._value(one, at)} AS z{one}{at}" for one in ends for at in self._places]
        joins = [
            _SAME_EPOCH.format(name=f"{one}{at}", one=one, metric=self._covariates[at])
            for one in ends
            for at in self._places
            if self._covariates[at] != PAST
        ]
        return query.format(
            columns=", ".join(columns),
            joins=" ".join(joins),
            since=self._since,
            kept=IN.format("a"),
        )

    def _weighed(self, ends: str) -> str:
        return ", ".join(
            [
                *(_WEIGHED.format(one=one) for one in ends),
                *(f"z{one}{at}" for one in ends for at in self._places),
            ]
        )

    @property
    def _places(self) -> range:
        return range(len(self._covariates))

    def _value(self, one: str, at: int) -> str:
        if self._covariates[at] == PAST:
            return _BEFORE.format(one=one, since=self._since)
        return f"{one}{at}.total / {one}{at}.count"


_OFF = """CASE WHEN {z} IS NULL THEN CAST(? AS DOUBLE PRECISION)
    ELSE CAST(? AS DOUBLE PRECISION) * {z} + CAST(? AS DOUBLE PRECISION) END"""


def adjusted_outcomes(
    session: Session,
    experiment: str,
    metric: str,
    per: Per,
    covariates: Sequence[str],
    since: int,
    only: str = "",
) -> Adjusted | None:
    """Return the adjusted moments of the epochs from `since` on; `None` if nothing can be fitted.

    covariates: PAST, or names of metrics of which a unit has its mean in the same epoch.
    only: fit this variant by itself, instead of all that are compared.
    """
    raw = outcomes(session, experiment, metric, per)
    # A cell with a capped unit knows the cap of its epoch; `per` unit has caps of 1.
    highest = {cell.epoch: cell.highest for cell in raw.cells if cell.capped}
    queries = AdjustedQueries(experiment, metric, covariates, since=since, highest=highest)
    joint = _joint(session, raw, covariates, queries)
    factors = alone(joint, only) if only else compared(joint)
    fitted = fit(joint, factors)
    if not fitted:
        return None
    off: list[Value] = [value for one in fitted for value in _taken_off(one)]
    rows = session.rows(tuple[int, str, float, float], queries.ranges, *queries.values, *off, *off)
    ranges: dict[Place, tuple[float, float]] = {
        (epoch, variant): (least, most) for epoch, variant, least, most in rows
    }
    return adjusted(joint, fitted, factors, ranges)


def _joint(
    session: Session, raw: Outcomes, covariates: Sequence[str], queries: AdjustedQueries
) -> Joint:
    """Return the moments of the cells that are compared, together with covariates."""
    number = len(covariates)
    kind: Any = tuple[(int, str, *repeat(float, len(list(_cell_sums(number)))))]
    cells = {
        (epoch, variant): values
        for epoch, variant, *values in session.rows(kind, queries.cells, *queries.values)
    }
    kind = tuple[(int, str, int, str, *repeat(float, len(list(_link_sums(number)))))]
    links = {
        ((epoch, variant), (other_epoch, other_variant)): values
        for epoch, variant, other_epoch, other_variant, *values in session.rows(
            kind, queries.links, *queries.link_values
        )
    }
    return Joint(
        covariates=tuple(covariates),
        cells=tuple(
            _cell(cell, number, iter(cells[cell.place]))
            for cell in raw.cells
            if cell.place in cells
        ),
        links=tuple(
            _link(link, number, iter(links[link.one, link.other]))
            for link in raw.links
            if (link.one, link.other) in links
        ),
    )


def _regressors(one: str, number: int) -> list[str]:
    """Return the expressions of weight · z and of the weight of units with z, by covariate."""
    return [
        expression
        for place in range(number)
        for expression in (
            f"COALESCE(w{one} * z{one}{place}, 0)",
            f"CASE WHEN z{one}{place} IS NULL THEN 0 ELSE w{one} END",
        )
    ]


def _cell_sums(number: int) -> Iterator[str]:
    """Yield what `_cell` reads, in order."""
    own = _regressors("a", number)
    for place in range(number):
        yield f"COUNT(za{place})"
        yield f"COALESCE(MIN(za{place}), 0)"
        yield f"COALESCE(MAX(za{place}), 0)"
    yield from (f"SUM({one})" for one in own)
    yield from (f"SUM({one} * {other})" for one in own for other in own)
    yield from (f"SUM({one} * wa)" for one in own)
    yield from (f"SUM({one} * ta)" for one in own)


def _link_sums(number: int) -> Iterator[str]:
    """Yield what `_link` reads, in order."""
    one, other = _regressors("a", number), _regressors("b", number)
    yield from (f"SUM({left} * {right})" for left in one for right in other)
    yield from (f"SUM({left} * wb)" for left in one)
    yield from (f"SUM({left} * tb)" for left in one)
    yield from (f"SUM(wa * {right})" for right in other)
    yield from (f"SUM(ta * {right})" for right in other)


def _cell(cell: Cell, number: int, values: Iterator[float]) -> JointCell:
    known: list[int] = []
    ends: list[tuple[float, float] | None] = []
    for _ in range(number):
        units, least, most = _vector(values, 3)
        known.append(int(units))
        ends.append((least, most) if units else None)
    return JointCell(
        cell=cell,
        known=tuple(known),
        ends=tuple(ends),
        sums=_vector(values, 2 * number),
        products=_matrix(values, 2 * number),
        weights=_vector(values, 2 * number),
        totals=_vector(values, 2 * number),
    )


def _link(link: SharedUnits, number: int, values: Iterator[float]) -> JointLink:
    return JointLink(
        link=link,
        products=_matrix(values, 2 * number),
        one_weights=_vector(values, 2 * number),
        one_totals=_vector(values, 2 * number),
        other_weights=_vector(values, 2 * number),
        other_totals=_vector(values, 2 * number),
    )


def _vector(values: Iterator[float], size: int) -> Vector:
    return tuple(islice(values, size))


def _matrix(values: Iterator[float], size: int) -> Matrix:
    return tuple(_vector(values, size) for _ in range(size))


def _taken_off(one: FittedCovariate) -> tuple[float, float, float]:
    """Return the values of `_OFF`: of a unit without z; the slope, and the rest of one with z."""
    unknown = -one.missing * one.share
    return unknown, one.theta, one.missing * (1 - one.share) - one.theta * one.mean
