"""The query plans of the moments of outcomes, if there are many units."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from strowger_gateway.gateway.storage.sql.experiments.outcome_queries import queries
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret


@pytest.mark.parametrize("highest", [{}, {1: 7.5, 3: 1.0}])
@pytest.mark.parametrize("votes", ["", "thumbs_up"])
def test_a_unit_costs_no_more_where_there_are_many(
    tmp_path: Path, highest: Mapping[int, float], votes: str
) -> None:
    """Every table is searched by its key: a scan within a join would cost units times units."""
    store = open_store(Secret(f"sqlite:///{tmp_path}/store.db"))
    store.prepare()
    store.close()

    with closing(sqlite3.connect(tmp_path / "store.db")) as database:
        steps = [
            step
            for query in queries("trial", "error", highest, votes=votes)
            for *_, step in database.execute(f"EXPLAIN QUERY PLAN {query.sql}", query.values)
        ]

    (joined,) = [step for step in steps if step.startswith("SEARCH b USING")]
    assert "unit=?" in joined
    assert not [step for step in steps if step.startswith(("SCAN", "MATERIALIZE"))]
