"""Compute the moments of `gateway/statistics/outcomes.py` in the database."""

from collections.abc import Sequence

from strowger_gateway.gateway.statistics.outcomes import (
    Cell,
    Outcomes,
    Per,
    SharedUnits,
)
from strowger_gateway.gateway.storage.sql.database import Session

_COUNT: dict[Per, str] = {
    "observation": "CAST({0}.count AS DOUBLE PRECISION)",
    "unit": "CAST(1 AS DOUBLE PRECISION)",
}
_TOTAL: dict[Per, str] = {"observation": "{0}.total", "unit": "({0}.total / {0}.count)"}
_CELLS = """WITH u AS (SELECT a.epoch, a.variant, {ca} AS count, {ta} AS total,
        CAST(a.count AS DOUBLE PRECISION) AS sent
        FROM experiment_units a WHERE a.experiment = ? AND a.metric = ?)
    SELECT epoch, variant, COUNT(*), SUM(count), SUM(total), SUM(count * count),
    SUM(total * total), SUM(count * total), MIN(total / count), MAX(total / count),
    SUM(sent), MAX(sent) FROM u GROUP BY epoch, variant ORDER BY epoch, variant"""
# Join the tables themselves by their key: SQLite materialises common table expressions without an
# index, so each unit would cost a scan of all units.
_LINKS = """SELECT a.epoch, a.variant, b.epoch, b.variant, COUNT(*), SUM({ca} * {cb}),
    SUM({ta} * {tb}), SUM({ta} * {cb}), SUM({ca} * {tb})
    FROM experiment_units a JOIN experiment_units b ON b.experiment = a.experiment
    AND b.metric = a.metric AND b.unit = a.unit AND (a.epoch, a.variant) < (b.epoch, b.variant)
    WHERE a.experiment = ? AND a.metric = ?
    GROUP BY a.epoch, a.variant, b.epoch, b.variant
    ORDER BY a.epoch, a.variant, b.epoch, b.variant"""


# A unit's requests are its observations of `error`; each has at most one vote on a metric.
_VOTED = """COALESCE((SELECT m.count FROM experiment_units m WHERE m.experiment = {0}.experiment
    AND m.metric = ? AND m.unit = {0}.unit AND m.epoch = {0}.epoch
    AND m.variant = {0}.variant), 0)"""
_RESPONSES = f"""WITH u AS (SELECT a.unit, a.epoch, a.variant,
        CAST(a.count AS DOUBLE PRECISION) AS count,
        CAST({_VOTED.format("a")} AS DOUBLE PRECISION) AS total
        FROM experiment_units a WHERE a.experiment = ? AND a.metric = 'error')"""
_RESPONSE_CELLS = f"""{_RESPONSES} SELECT epoch, variant, COUNT(*), SUM(count), SUM(total),
    SUM(count * count), SUM(total * total), SUM(count * total), MIN(total / count),
    MAX(total / count), SUM(count), MAX(count)
    FROM u GROUP BY epoch, variant ORDER BY epoch, variant"""
_RESPONSE_LINKS = f"""WITH u AS (SELECT a.epoch AS one_epoch, a.variant AS one_variant,
        b.epoch AS other_epoch, b.variant AS other_variant,
        CAST(a.count AS DOUBLE PRECISION) AS ca, CAST(b.count AS DOUBLE PRECISION) AS cb,
        CAST({_VOTED.format("a")} AS DOUBLE PRECISION) AS ta,
        CAST({_VOTED.format("b")} AS DOUBLE PRECISION) AS tb
        FROM experiment_units a JOIN experiment_units b ON b.experiment = a.experiment
        AND b.metric = a.metric AND b.unit = a.unit
        AND (a.epoch, a.variant) < (b.epoch, b.variant)
        WHERE a.experiment = ? AND a.metric = 'error')
    SELECT one_epoch, one_variant, other_epoch, other_variant, COUNT(*), SUM(ca * cb),
    SUM(ta * tb), SUM(ta * cb), SUM(ca * tb) FROM u
    GROUP BY one_epoch, one_variant, other_epoch, other_variant
    ORDER BY one_epoch, one_variant, other_epoch, other_variant"""


def queries(per: Per) -> tuple[str, str]:
    """Return the queries of the cells and the links; both take the experiment and the metric."""
    words = {f"c{one}": _COUNT[per].format(one) for one in "ab"}
    words |= {f"t{one}": _TOTAL[per].format(one) for one in "ab"}
    return _CELLS.format(**words), _LINKS.format(**words)


_CellRow = tuple[int, str, int, float, float, float, float, float, float, float, float, float]
_LinkRow = tuple[int, str, int, str, int, float, float, float, float]


def outcomes(session: Session, experiment: str, metric: str, per: Per) -> Outcomes:
    """Return the moments of a metric, equal to `summarised` over the units' rows."""
    of_cells, of_links = queries(per)
    return _outcomes(
        session.rows(_CellRow, of_cells, experiment, metric),
        session.rows(_LinkRow, of_links, experiment, metric),
    )


def responses(session: Session, experiment: str, metric: str) -> Outcomes:
    """Return the moments of votes per request on a feedback metric."""
    return _outcomes(
        session.rows(_CellRow, _RESPONSE_CELLS, metric, experiment),
        session.rows(_LinkRow, _RESPONSE_LINKS, metric, metric, experiment),
    )


def _outcomes(cells: Sequence[_CellRow], links: Sequence[_LinkRow]) -> Outcomes:
    return Outcomes(
        cells=tuple(
            Cell(
                epoch=row[0],
                variant=row[1],
                units=row[2],
                count=row[3],
                total=row[4],
                count2=row[5],
                total2=row[6],
                product=row[7],
                least=row[8],
                most=row[9],
                observations=row[10],
                heaviest=row[11],
            )
            for row in cells
        ),
        links=tuple(
            SharedUnits(
                one=(row[0], row[1]),
                other=(row[2], row[3]),
                units=row[4],
                counts=row[5],
                totals=row[6],
                total_count=row[7],
                count_total=row[8],
            )
            for row in links
        ),
    )
