"""The votes per request of a unit, from both databases and counted in Python."""

import msgspec
import numpy as np
import pytest

from strowger_gateway.gateway.statistics.outcomes import Outcomes, UnitRow, summarised
from strowger_gateway.gateway.storage.sql.rows import Row
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from tests.gateway.storage.sql.rows import request_row, vote


def test_requests_with_a_vote_are_counted_by_unit_epoch_and_variant(store: SqlStore) -> None:
    """Users come in several epochs; some votes are on another metric, some are comments alone."""
    chance = np.random.default_rng(51)
    rows: list[Row] = []
    places: dict[tuple[str, int, str], list[int]] = {}
    for number in range(400):
        unit, epoch = f"u{chance.integers(40)}", int(chance.integers(1, 4))
        variant = "ab"[int(unit[1:]) % 2]
        rows.append(request_row(f"r{number}", unit=unit, epoch=epoch, variant=variant))
        place = places.setdefault((unit, epoch, variant), [0, 0])
        place[0] += 1
        kind = int(chance.integers(4))
        if kind == 1:
            rows += [vote(f"r{number}", 1.0), vote(f"r{number}", 4.0)]
            place[1] += 1
        elif kind == 2:
            rows.append(vote(f"r{number}", 1.0, metric="thumbs"))
        elif kind == 3:
            rows.append(vote(f"r{number}", None, comment="well"))

    store.import_rows("f", 0, len(rows), rows)

    expected = [
        UnitRow(unit=unit, epoch=epoch, variant=variant, count=count, total=float(total))
        for (unit, epoch, variant), (count, total) in places.items()
    ]
    assert numbers(store.responses("e", "stars")) == [
        pytest.approx(one, rel=1e-9) if isinstance(one, float) else one
        for one in numbers(summarised(expected))
    ]

    assert all(cell.total == 0 for cell in store.responses("e", "unknown").cells)
    assert store.responses("other", "stars").cells == ()


def numbers(outcomes: Outcomes) -> list[object]:
    rows = [msgspec.structs.astuple(one) for one in (*outcomes.cells, *outcomes.links)]
    return [float(value) if isinstance(value, int) else value for row in rows for value in row]
