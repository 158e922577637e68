"""Adjusted moments from the store are those of the rows, on both databases."""

import sqlite3
from collections import defaultdict
from contextlib import closing
from math import log, log1p
from pathlib import Path

import msgspec
import numpy as np
import pytest

from strowger_gateway.gateway.statistics.outcomes import Per, UnitRow
from strowger_gateway.gateway.storage.sql.experiments.adjusted_queries import (
    AdjustedQueries,
    adjusted_outcomes,
)
from strowger_gateway.gateway.storage.sql.experiments.exclusions import ExcludedName, exclude
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.request_observations import PROMPT_ATTRIBUTE
from strowger_gateway.gateway.storage.sql.rows import RequestRow
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.statistics.joint_rows import Covaried, adjusted_rows
from tests.gateway.storage.sql.rows import request_row

SINCE = 2
"""The first epoch with two variants."""


def requests() -> list[RequestRow]:
    """120 users, of whom two thirds came before the comparison. A quarter have no tokens in its
    first epoch, as if they had come before the experiment adjusted by them. One sends so much that
    its weight is capped."""
    rng = np.random.default_rng(4)
    found: list[RequestRow] = []
    for user in range(120):
        own = rng.lognormal(0, 0.5)
        for epoch in (1, 2, 3):
            if epoch == 1 and user % 3 == 0:
                continue
            variant = "a" if epoch == 1 or (user + epoch) % 2 else "b"
            for turn in range(40 if user == 7 else 1 + int(rng.integers(0, 4))):
                tokens = int(rng.lognormal(5, 1))
                row = request_row(
                    f"{user}-{epoch}-{turn}",
                    unit=f"u{user}",
                    epoch=epoch,
                    variant=variant,
                    cost=float(own * tokens * rng.lognormal(0, 0.3)) / 1e6,
                )
                measured = user % 4 or epoch != SINCE
                found.append(
                    msgspec.structs.replace(
                        row,
                        ms=float(rng.lognormal(5, 0.3) * tokens**0.5),
                        attributes={PROMPT_ATTRIBUTE: tokens} if measured else None,
                    )
                )
    return found


def covaried(rows: list[RequestRow], metric: str, *, per_unit: bool) -> list[Covaried]:
    values: defaultdict[tuple[str, int, str], list[float]] = defaultdict(list)
    tokens: defaultdict[tuple[str, int, str], list[float]] = defaultdict(list)
    for row in rows:
        place = row.unit, row.epoch, row.variant
        assert row.cost_usd is not None
        values[place].append(row.cost_usd if metric == "cost_usd" else log(row.ms))
        if row.attributes is not None:
            sent = float(row.attributes[PROMPT_ATTRIBUTE])
            tokens[place].append(sent if metric == "cost_usd" else log1p(sent))
    found: list[Covaried] = []
    for (unit, epoch, variant), own in values.items():
        if epoch < SINCE:
            continue
        row = UnitRow(unit=unit, epoch=epoch, variant=variant, count=len(own), total=sum(own))
        if per_unit:
            row = msgspec.structs.replace(row, count=1, total=row.total / row.count)
        known: dict[str, float] = {}
        if tokens[unit, epoch, variant]:
            known["prompt"] = float(np.mean(tokens[unit, epoch, variant]))
        if before := values.get((unit, 1, "a")):
            known["past"] = float(np.mean(before))
        found.append(Covaried(row, known))
    return found


@pytest.mark.parametrize("per", ["observation", "unit"])
@pytest.mark.parametrize(
    ("metric", "covariate"), [("cost_usd", "prompt_tokens"), ("latency_ms", "log_prompt_tokens")]
)
def test_the_store_computes_what_the_rows_say(
    store: SqlStore, per: Per, metric: str, covariate: str
) -> None:
    rows = requests()
    store.import_rows("f", 0, 1, rows)

    with store.database.reading() as session:
        found = adjusted_outcomes(session, "e", metric, per, (covariate, "past"), SINCE)

    theirs = adjusted_rows(covaried(rows, metric, per_unit=per == "unit"), ("prompt", "past"))
    assert found is not None
    for ours, other in zip(found.fitted, theirs.fitted, strict=True):
        assert (ours.theta, ours.missing, ours.mean, ours.share, ours.coverage) == pytest.approx(
            (other.theta, other.missing, other.mean, other.share, other.coverage), rel=1e-9
        )
    assert found.fitted[0].theta
    assert found.fitted[1].missing
    assert found.moved == pytest.approx(theirs.moved, rel=1e-9)
    for one, other in zip(found.outcomes.cells, theirs.outcomes.cells, strict=True):
        assert one.place == other.place
        for name in ("count", "total", "count2", "total2", "product", "least", "most"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9)
    for one, other in zip(found.outcomes.links, theirs.outcomes.links, strict=True):
        assert (one.one, one.other, one.units) == (other.one, other.other, other.units)
        for name in ("counts", "totals", "total_count", "count_total"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9)
    assert len(found.regressors) == len(theirs.regressors) == 4
    for one, other in zip(found.regressors, theirs.regressors, strict=True):
        for cell, same in zip(one.outcomes.cells, other.outcomes.cells, strict=True):
            assert cell.total2 == pytest.approx(same.total2, rel=1e-9)
            assert (cell.least, cell.most) == pytest.approx((same.least, same.most))


def test_an_excluded_unit_is_left_out_of_the_fit_as_well(store: SqlStore) -> None:
    rows = requests()
    store.import_rows("f", 0, 1, rows)
    busy = ExcludedName(kind="unit", name="u7", reason="a bot", by="operator", at=1.0)
    with store.database.writing() as session:
        exclude(session, "e", busy)

    with store.database.reading() as session:
        found = adjusted_outcomes(
            session, "e", "cost_usd", "observation", ("prompt_tokens", "past"), SINCE
        )

    others = [row for row in rows if row.unit != "u7"]
    theirs = adjusted_rows(covaried(others, "cost_usd", per_unit=False), ("prompt", "past"))
    assert found is not None
    assert [one.theta for one in found.fitted] == pytest.approx(
        [one.theta for one in theirs.fitted], rel=1e-9
    )
    assert [one.units for one in found.outcomes.cells] == [
        one.units for one in theirs.outcomes.cells
    ]


def test_without_a_comparison_nothing_is_adjusted(store: SqlStore) -> None:
    store.import_rows("f", 0, 1, [row for row in requests() if row.epoch == 1])

    with store.database.reading() as session:
        found = adjusted_outcomes(session, "e", "cost_usd", "observation", ("past",), SINCE)

    assert found is None


def test_a_unit_costs_no_more_where_there_are_many(tmp_path: Path) -> None:
    """Every join is a search by the table's key."""
    store = open_store(Secret(f"sqlite:///{tmp_path}/store.db"))
    store.prepare()
    store.close()
    queries = AdjustedQueries(
        "trial", "error", ("prompt_tokens", "past"), since=2, highest={2: 3.5}
    )

    with closing(sqlite3.connect(tmp_path / "store.db")) as database:
        steps = [
            step
            for query, values in (
                (queries.cells, queries.values),
                (queries.links, queries.link_values),
                (queries.ranges, (*queries.values, *[0.0] * 12)),
            )
            for *_, step in database.execute(f"EXPLAIN QUERY PLAN {query}", values)
        ]

    searched = [step for step in steps if step.startswith("SEARCH") and "a USING" not in step]
    assert len(searched) == 3 + 6 + 3
    assert all("unit=?" in step for step in searched)
    assert [step for step in steps if step.startswith("SCAN")] == ["SCAN u"] * 3
