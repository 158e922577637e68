"""Compute the moments of `gateway/statistics/outcomes.py` in the database."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes, Per, SharedUnits
from strowger_gateway.gateway.statistics.weights import MOST_CAPPED, Sent, caps
from strowger_gateway.gateway.storage.sql.database import Session, Value
from strowger_gateway.gateway.storage.sql.experiments.exclusions import IN

# A unit's observations `sent`, their sum `total`, and the `cap` of their epoch, NULL without one.
_CELLS = """WITH u AS (SELECT epoch, variant, sent,
        CASE WHEN sent > cap THEN cap ELSE sent END AS count,
        CASE WHEN sent > cap THEN cap * (total / sent) ELSE total END AS total
        FROM (SELECT a.epoch, a.variant, CAST(a.count AS DOUBLE PRECISION) AS sent,
            {total_a} AS total, {cap_a} AS cap
            FROM experiment_units a WHERE a.experiment = ? AND a.metric = ?
            AND {kept}) AS s)
    SELECT epoch, variant, COUNT(*), SUM(count), SUM(total), SUM(count * count),
    SUM(total * total), SUM(count * total), MIN(total / count), MAX(total / count),
    SUM(sent), MAX(sent), SUM(CASE WHEN count < sent THEN 1 ELSE 0 END),
    SUM(count * count / sent), MAX(count), MIN(sent)
    FROM u GROUP BY epoch, variant ORDER BY epoch, variant"""
# Join the tables themselves by their key: SQLite materialises common table expressions without an
# index, so each unit would cost a scan of all units.
_LINKS = """WITH u AS (SELECT one_epoch, one_variant, other_epoch, other_variant,
        CASE WHEN na > ka THEN ka ELSE na END AS ca, CASE WHEN nb > kb THEN kb ELSE nb END AS cb,
        CASE WHEN na > ka THEN ka * (xa / na) ELSE xa END AS ta,
        CASE WHEN nb > kb THEN kb * (xb / nb) ELSE xb END AS tb
        FROM (SELECT a.epoch AS one_epoch, a.variant AS one_variant,
            b.epoch AS other_epoch, b.variant AS other_variant,
            CAST(a.count AS DOUBLE PRECISION) AS na, CAST(b.count AS DOUBLE PRECISION) AS nb,
            {total_a} AS xa, {total_b} AS xb, {cap_a} AS ka, {cap_b} AS kb
            FROM experiment_units a JOIN experiment_units b ON b.experiment = a.experiment
            AND b.metric = a.metric AND b.unit = a.unit
            AND (a.epoch, a.variant) < (b.epoch, b.variant)
            WHERE a.experiment = ? AND a.metric = ? AND {kept}) AS s)
    SELECT one_epoch, one_variant, other_epoch, other_variant, COUNT(*), SUM(ca * cb),
    SUM(ta * tb), SUM(ta * cb), SUM(ca * tb) FROM u
    GROUP BY one_epoch, one_variant, other_epoch, other_variant
    ORDER BY one_epoch, one_variant, other_epoch, other_variant"""
_GREATEST = f"""SELECT count FROM experiment_units a WHERE experiment = ? AND metric = ?
    AND epoch = ? AND variant = ? AND {IN.format("a")} ORDER BY count DESC LIMIT ?"""

# A unit's requests are its observations of `error`; each has at most one vote on a metric.
_REQUESTS = "error"
_VOTED = """CAST(COALESCE((SELECT m.count FROM experiment_units m
    WHERE m.experiment = {0}.experiment AND m.metric = ? AND m.unit = {0}.unit
    AND m.epoch = {0}.epoch AND m.variant = {0}.variant), 0) AS DOUBLE PRECISION)"""


class OutcomeQuery(Struct, frozen=True):
    """A statement and its values."""

    sql: str
    values: tuple[Value, ...]


def queries(
    experiment: str, metric: str, highest: Mapping[int, float], *, votes: str = ""
) -> tuple[OutcomeQuery, OutcomeQuery]:
    """Return the queries of the cells and the links.

    highest: the cap of each epoch that has one (`weights.caps`).
    votes:   instead of the metric's own sums, those of "the request has a vote on this metric".
    """
    capped = "CAST(NULL AS DOUBLE PRECISION)"
    if highest:
        cases = " WHEN ? THEN CAST(? AS DOUBLE PRECISION)" * len(highest)
        capped = f"CASE {{0}}.epoch{cases} END"
    total = _VOTED if votes else "{0}.total"
    words = {"kept": IN.format("a")}
    words |= {f"cap_{one}": capped.format(one) for one in "ab"}
    words |= {f"total_{one}": total.format(one) for one in "ab"}
    caps_given = tuple(value for pair in highest.items() for value in pair)
    voted = (votes,) if votes else ()
    return (
        OutcomeQuery(_CELLS.format(**words), (*voted, *caps_given, experiment, metric)),
        OutcomeQuery(_LINKS.format(**words), (*voted * 2, *caps_given * 2, experiment, metric)),
    )


_CellRow = tuple[
    int,
    str,
    int,
    float,
    float,
    float,
    float,
    float,
    float,
    float,
    float,
    float,
    int,
    float,
    float,
    float,
]
_LinkRow = tuple[int, str, int, str, int, float, float, float, float]


def outcomes(session: Session, experiment: str, metric: str, per: Per) -> Outcomes:
    """Return the moments of a metric, equal to `summarised` over the units' rows."""
    return _moments(session, experiment, metric, per)


def responses(session: Session, experiment: str, metric: str) -> Outcomes:
    """Return the moments of votes per request on a feedback metric."""
    return _moments(session, experiment, _REQUESTS, "observation", votes=metric)


def _moments(
    session: Session, experiment: str, metric: str, per: Per, *, votes: str = ""
) -> Outcomes:
    """Read the cells, and again with caps if one of them needs one; that is rare where it is slow.

    Units that weigh the same are units with a cap of 1.
    """
    of_cells, of_links = queries(experiment, metric, {}, votes=votes)
    cells = session.rows(_CellRow, of_cells.sql, *of_cells.values)
    if per == "unit":
        highest = {row[0]: 1.0 for row in cells}
    else:
        highest = caps([_sent(session, experiment, metric, row) for row in cells])
    if highest:
        of_cells, of_links = queries(experiment, metric, highest, votes=votes)
        cells = session.rows(_CellRow, of_cells.sql, *of_cells.values)
    return _outcomes(cells, session.rows(_LinkRow, of_links.sql, *of_links.values))


def _sent(session: Session, experiment: str, metric: str, row: _CellRow) -> Sent:
    """Return what the cap depends on: of most cells the greatest count is enough."""
    alone = Sent(epoch=row[0], units=row[2], total=row[10], least=row[15], greatest=(row[11],))
    if alone.even:
        return alone
    rows = session.rows(
        tuple[float], _GREATEST, experiment, metric, row[0], row[1], MOST_CAPPED + 1
    )
    return replace(alone, greatest=[count for (count,) in rows])


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
                capped=row[12],
                singles=row[13],
                highest=row[14],
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
