"""Moments of rows are the same from SQL, from Python, and in any order."""

import sqlite3
from collections.abc import Sequence
from math import inf
from pathlib import Path
from textwrap import dedent

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.outcomes import (
    Cell,
    Outcomes,
    SharedUnits,
    UnitRow,
    summarised,
)

ROWS = st.lists(
    st.builds(
        UnitRow,
        unit=st.integers(0, 75).map(str),
        epoch=st.integers(1, 3),
        variant=st.sampled_from(["control", "treatment"]),
        count=st.one_of(st.integers(1, 5), st.integers(1, 500)),
        total=st.integers(-9, 9).map(float),
    ),
    max_size=250,
)
WEIGHTED = """
    CREATE VIEW weighted AS SELECT u.unit, u.epoch, u.variant, u.count AS sent,
           CASE WHEN u.count > c.cap THEN c.cap ELSE u.count END AS count,
           CASE WHEN u.count > c.cap THEN c.cap * (u.total / u.count) ELSE u.total END AS total
    FROM unit_totals u LEFT JOIN caps c ON c.epoch = u.epoch
"""
CELLS = """
    SELECT epoch, variant, COUNT(*), SUM(count), SUM(total),
           SUM(count * count), SUM(total * total), SUM(count * total),
           MIN(total / count), MAX(total / count), SUM(sent), MAX(sent),
           SUM(CASE WHEN count < sent THEN 1 ELSE 0 END), SUM(1.0 * count * count / sent),
           MAX(count)
    FROM weighted GROUP BY epoch, variant ORDER BY epoch, variant
"""
LINKS = """
    SELECT a.epoch, a.variant, b.epoch, b.variant, COUNT(*), SUM(a.count * b.count),
           SUM(a.total * b.total), SUM(a.total * b.count), SUM(a.count * b.total)
    FROM weighted a
    JOIN weighted b ON a.unit = b.unit AND (a.epoch, a.variant) < (b.epoch, b.variant)
    GROUP BY a.epoch, a.variant, b.epoch, b.variant
    ORDER BY a.epoch, a.variant, b.epoch, b.variant
"""
CELL_FIELDS = tuple(one for one in Cell.__struct_fields__ if one != "cancelled")
"""In the order of the columns of CELLS."""


def by_sql(rows: Sequence[UnitRow]) -> Outcomes:
    """The statements of docs/experiments-statistics.md."""
    store = sqlite3.connect(":memory:")
    store.execute(
        "CREATE TABLE unit_totals (unit TEXT, epoch INT, variant TEXT, count INT, total REAL,"
        " PRIMARY KEY (unit, epoch, variant))"
    )
    store.execute("CREATE TABLE caps (epoch INT PRIMARY KEY, cap REAL)")
    store.execute(WEIGHTED)
    for row in rows:
        store.execute(
            "INSERT INTO unit_totals VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET count = count + excluded.count, total = total + excluded.total",
            (row.unit, row.epoch, row.variant, row.count, row.total),
        )
    sent: dict[tuple[int, str], list[int]] = {}
    for epoch, variant, count in store.execute("SELECT epoch, variant, count FROM unit_totals"):
        sent.setdefault((epoch, variant), []).append(count)
    lowest: dict[int, float] = {}
    for (epoch, _), counts in sent.items():
        if len(counts) >= 10:
            lowest[epoch] = min(lowest.get(epoch, inf), highest_weight(counts))
    store.executemany("INSERT INTO caps VALUES (?, ?)", lowest.items())
    cells = tuple(Cell(**dict(zip(CELL_FIELDS, row, strict=True))) for row in store.execute(CELLS))
    links = tuple(
        SharedUnits(
            one=(epoch, variant),
            other=(later, other),
            units=units,
            counts=counts,
            totals=totals,
            total_count=total_count,
            count_total=count_total,
        )
        for epoch, variant, later, other, units, counts, totals, total_count, count_total in (
            store.execute(LINKS)
        )
    )
    store.close()
    return Outcomes(cells=cells, links=links)


def highest_weight(counts: Sequence[int]) -> float:
    """The cap of a cell as the page defines it: by trying how many units are above it."""
    if len(counts) < 50:
        return min(counts)
    ordered = sorted(counts, reverse=True)
    for above in range(50):
        cap = sum(ordered[above:]) / (50 - above)
        if ordered[above] <= cap:
            return cap
    raise AssertionError("50 equal weights have a share of 1/50 each")


def flat(outcomes: Outcomes) -> list[object]:
    """Names and numbers in a row, for a comparison to the digits that sums can have."""
    rows = [msgspec.structs.astuple(one) for one in (*outcomes.cells, *outcomes.links)]
    return [
        pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value
        for row in rows
        for value in row
    ]


def plain(outcomes: Outcomes) -> list[object]:
    rows = [msgspec.structs.astuple(one) for one in (*outcomes.cells, *outcomes.links)]
    return [value for row in rows for value in row]


def test_the_documented_statements_are_the_tested_ones() -> None:
    page = (Path(__file__).parents[3] / "docs" / "experiments-statistics.md").read_text()

    assert dedent(WEIGHTED).strip() in page
    assert dedent(CELLS).strip() in page
    assert dedent(LINKS).strip() in page


@given(rows=ROWS)
def test_sql_and_python_find_the_same_moments(rows: list[UnitRow]) -> None:
    assert plain(summarised(rows)) == flat(by_sql(rows))


@given(rows=ROWS, data=st.data())
def test_the_order_in_which_requests_were_recorded_does_not_matter(
    rows: list[UnitRow], data: st.DataObject
) -> None:
    assert plain(summarised(data.draw(st.permutations(rows)))) == flat(summarised(rows))


def test_a_unit_may_weigh_what_it_sent_or_as_much_as_any_other() -> None:
    heavy = UnitRow(unit="heavy", epoch=1, variant="control", count=98, total=98.0)
    light = [UnitRow(unit=u, epoch=1, variant="control", count=1, total=0.0) for u in ("a", "b")]

    by_observation = summarised([heavy, *light])
    by_unit = summarised([heavy, *light], per="unit")

    assert by_observation.cells[0].mean == pytest.approx(0.98)
    assert by_unit.cells[0].mean == pytest.approx(1 / 3)
