"""The moments of `gateway.experiments.outcomes`, added up by the database."""

from gateway.experiments.outcomes import Cell, Link, Outcomes, Per
from gateway.store.database import Session

_UNITS = {
    "observation": """SELECT unit, epoch, variant, CAST(count AS DOUBLE PRECISION) AS count, total
        FROM experiment_units WHERE experiment = ? AND metric = ?""",
    "unit": """SELECT unit, epoch, variant, CAST(1 AS DOUBLE PRECISION) AS count,
        total / count AS total FROM experiment_units WHERE experiment = ? AND metric = ?""",
}
_CELLS = """WITH u AS ({units})
    SELECT epoch, variant, COUNT(*), SUM(count), SUM(total), SUM(count * count),
    SUM(total * total), SUM(count * total), MIN(total / count), MAX(total / count)
    FROM u GROUP BY epoch, variant ORDER BY epoch, variant"""
_LINKS = """WITH u AS ({units})
    SELECT a.epoch, a.variant, b.epoch, b.variant, COUNT(*), SUM(a.count * b.count),
    SUM(a.total * b.total), SUM(a.total * b.count), SUM(a.count * b.total)
    FROM u a JOIN u b ON a.unit = b.unit AND (a.epoch, a.variant) < (b.epoch, b.variant)
    GROUP BY a.epoch, a.variant, b.epoch, b.variant
    ORDER BY a.epoch, a.variant, b.epoch, b.variant"""

_CellRow = tuple[int, str, int, float, float, float, float, float, float, float]
_LinkRow = tuple[int, str, int, str, int, float, float, float, float]


def outcomes(session: Session, experiment: str, metric: str, per: Per) -> Outcomes:
    """As `summarised` makes them of the units' rows."""
    units = _UNITS[per]
    cells = session.rows(_CellRow, _CELLS.format(units=units), experiment, metric)
    links = session.rows(_LinkRow, _LINKS.format(units=units), experiment, metric)
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
            )
            for row in cells
        ),
        links=tuple(
            Link(
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
