"""Moments of rows are the same from SQL, from Python, in parts, and in any order."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.outcomes import (
    Cell,
    Outcomes,
    SharedUnits,
    UnitRow,
    merged,
    summarised,
)

ROWS = st.lists(
    st.builds(
        UnitRow,
        unit=st.sampled_from("abcdefgh"),
        epoch=st.integers(1, 3),
        variant=st.sampled_from(["control", "treatment"]),
        count=st.integers(1, 5),
        total=st.integers(-9, 9).map(float),
    ),
    max_size=40,
)
CELLS = """
    SELECT epoch, variant, COUNT(*), SUM(count), SUM(total),
           SUM(count * count), SUM(total * total), SUM(count * total),
           MIN(total / count), MAX(total / count), SUM(count), MAX(count)
    FROM unit_totals GROUP BY epoch, variant ORDER BY epoch, variant
"""
LINKS = """
    SELECT a.epoch, a.variant, b.epoch, b.variant, COUNT(*), SUM(a.count * b.count),
           SUM(a.total * b.total), SUM(a.total * b.count), SUM(a.count * b.total)
    FROM unit_totals a
    JOIN unit_totals b ON a.unit = b.unit AND (a.epoch, a.variant) < (b.epoch, b.variant)
    GROUP BY a.epoch, a.variant, b.epoch, b.variant
    ORDER BY a.epoch, a.variant, b.epoch, b.variant
"""


def by_sql(rows: Sequence[UnitRow]) -> Outcomes:
    """The statements of docs/experiments-statistics.md."""
    store = sqlite3.connect(":memory:")
    store.execute(
        "CREATE TABLE unit_totals (unit TEXT, epoch INT, variant TEXT, count INT, total REAL,"
        " PRIMARY KEY (unit, epoch, variant))"
    )
    for row in rows:
        store.execute(
            "INSERT INTO unit_totals VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET count = count + excluded.count, total = total + excluded.total",
            (row.unit, row.epoch, row.variant, row.count, row.total),
        )
    cells = tuple(
        Cell(
            epoch=epoch,
            variant=variant,
            units=units,
            count=count,
            total=total,
            count2=count2,
            total2=total2,
            product=product,
            least=least,
            most=most,
            observations=observations,
            heaviest=heaviest,
        )
        for (
            epoch,
            variant,
            units,
            count,
            total,
            count2,
            total2,
            product,
            least,
            most,
            observations,
            heaviest,
        ) in store.execute(CELLS)
    )
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


def test_the_documented_statements_are_the_tested_ones() -> None:
    page = (Path(__file__).parents[3] / "docs" / "experiments-statistics.md").read_text()

    assert dedent(CELLS).strip() in page
    assert dedent(LINKS).strip() in page


@given(rows=ROWS)
def test_sql_and_python_find_the_same_moments(rows: list[UnitRow]) -> None:
    assert summarised(rows) == by_sql(rows)


@given(rows=ROWS, data=st.data())
def test_the_order_in_which_requests_were_recorded_does_not_matter(
    rows: list[UnitRow], data: st.DataObject
) -> None:
    assert summarised(data.draw(st.permutations(rows))) == summarised(rows)


@given(rows=ROWS)
def test_parts_without_a_unit_in_common_add_up(rows: list[UnitRow]) -> None:
    parts = [summarised(row for row in rows if row.unit in units) for units in ("abc", "de", "fgh")]

    assert merged(parts) == summarised(rows)


def test_a_unit_may_weigh_what_it_sent_or_as_much_as_any_other() -> None:
    heavy = UnitRow(unit="heavy", epoch=1, variant="control", count=98, total=98.0)
    light = [UnitRow(unit=u, epoch=1, variant="control", count=1, total=0.0) for u in ("a", "b")]

    by_observation = summarised([heavy, *light])
    by_unit = summarised([heavy, *light], per="unit")

    assert by_observation.cells[0].mean == pytest.approx(0.98)
    assert by_unit.cells[0].mean == pytest.approx(1 / 3)
