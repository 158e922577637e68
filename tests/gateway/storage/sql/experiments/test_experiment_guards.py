"""What checks of an experiment remember, on both databases: looks are spent once, windows last."""

from collections.abc import Sequence

import pytest

from strowger_gateway.gateway.config.schema.experiment import Circuit, Experiment, Variant
from strowger_gateway.gateway.experiments.guarding.guard_rows import (
    note_stop,
    state_of,
    unit_errors,
    watch,
)
from strowger_gateway.gateway.storage.sql.experiments.exclusions import ExcludedName, exclude
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import RequestRow
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.storage.sql.rows import request_row

TRIAL = Experiment(
    name="e",
    model="chat",
    variants=(
        Variant(name="a", backend="p/a", weight=50),
        Variant(name="b", backend="p/b", weight=50),
    ),
    primary="error",
    circuit=Circuit(requests=20),
)


class Imports:
    """Imports requests, each with an id of its own."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._place = 0

    def add(
        self, variant: str, requests: int, *, failed: int = 0, epoch: int = 1, unit: str = ""
    ) -> None:
        """unit: of all of them; "": each has its own."""
        rows: Sequence[RequestRow] = [
            request_row(
                f"r{self._place + number}",
                variant=variant,
                unit=unit or f"u{self._place + number}",
                epoch=epoch,
                status=500 if number < failed else 200,
            )
            for number in range(requests)
        ]
        self._store.import_rows("file", self._place, self._place + requests, rows)
        self._place += requests


@pytest.fixture
def imports(store: SqlStore) -> Imports:
    return Imports(store)


def test_a_look_is_spent_once_and_those_that_were_missed_are_due_together(
    store: SqlStore, imports: Imports
) -> None:
    none = watch(store.database, TRIAL, resumed=0, epoch=1)
    imports.add("a", 25)
    imports.add("b", 25)
    first = watch(store.database, TRIAL, resumed=0, epoch=1)
    again = watch(store.database, TRIAL, resumed=0, epoch=1)

    assert (none.spent, none.due) == (0, 0)
    assert (first.spent, first.due) == (0, 3)
    assert (again.spent, again.due) == (3, 3)


def test_spent_looks_and_sums_survive_a_restart_and_looks_begin_again_after_a_resume(
    url: Secret,
) -> None:
    before = open_store(url)
    Imports(before).add("b", 45)
    watch(before.database, TRIAL, resumed=0, epoch=1)
    before.close()
    store = open_store(url)

    restarted = watch(store.database, TRIAL, resumed=0, epoch=1)
    ramped = watch(store.database, TRIAL, resumed=0, epoch=2)
    resumed = watch(store.database, TRIAL, resumed=2, epoch=3)
    store.close()

    assert (restarted.spent, ramped.spent, ramped.due) == (3, 3, 3)
    assert (resumed.spent, resumed.due) == (0, 0)


def test_a_circuit_looks_at_the_last_requests_of_the_epoch(
    store: SqlStore, imports: Imports
) -> None:
    opened: list[int] = []
    for _ in range(10):
        imports.add("a", 50)
        imports.add("b", 50)
        opened.append(len(watch(store.database, TRIAL, resumed=0, epoch=1).opened))
    seen: list[tuple[str, ...]] = []
    for _ in range(4):
        imports.add("a", 5)
        imports.add("b", 5, failed=5)
        seen.append(watch(store.database, TRIAL, resumed=0, epoch=1).opened)
    later = watch(store.database, TRIAL, resumed=0, epoch=2).opened

    assert (sum(opened), seen[:3], later) == (0, [()] * 3, ())
    assert seen[3] == (
        "circuit of b open: 20 of its last 20 requests failed (of a's, 0 of 20 failed)",
    )


def test_a_check_in_which_an_outage_begins_opens_no_circuit(
    store: SqlStore, imports: Imports
) -> None:
    """Within it, all requests of control may have come before, and the others after."""
    for variant in ("a", "b"):
        imports.add(variant, 50)
        watch(store.database, TRIAL, resumed=0, epoch=1)
    imports.add("a", 50)
    imports.add("b", 50, failed=50)
    begins = watch(store.database, TRIAL, resumed=0, epoch=1).opened
    imports.add("b", 80, failed=80)
    alone = watch(store.database, TRIAL, resumed=0, epoch=1).opened
    imports.add("a", 20, failed=20)
    imports.add("b", 20, failed=20)

    assert (begins, alone) == ((), ())
    assert watch(store.database, TRIAL, resumed=0, epoch=1).opened == ()


def test_where_control_has_no_requests_a_variant_that_has_worked_is_watched_for_longer(
    store: SqlStore, imports: Imports
) -> None:
    imports.add("a", 100)
    opened: list[int] = []
    for place in range(40):
        imports.add("b", 10, failed=10 if place >= 20 else 0)
        opened.append(len(watch(store.database, TRIAL, resumed=0, epoch=1).opened))

    assert opened.index(1) == 29


def test_an_outage_of_control_too_opens_no_circuit(store: SqlStore, imports: Imports) -> None:
    imports.add("a", 20, failed=6)
    imports.add("b", 20, failed=20)

    assert watch(store.database, TRIAL, resumed=0, epoch=1).opened == ()


def test_what_keeps_a_window_stays_small(store: SqlStore, imports: Imports) -> None:
    for _ in range(400):
        imports.add("b", 1)
        watch(store.database, TRIAL, resumed=0, epoch=1)

    (past,) = state_of(store.database, "e").past
    assert 60 <= len(past.sums) <= 90
    assert past.sums[0].requests <= 200


def test_excluded_units_open_no_circuit(store: SqlStore, imports: Imports) -> None:
    imports.add("b", 30, failed=30, unit="bot")
    imports.add("b", 10)
    before = watch(store.database, TRIAL, resumed=0, epoch=1).opened
    with store.database.writing() as session:
        exclude(session, "e", ExcludedName(kind="unit", name="bot", reason="", by="", at=1.0))
    imports.add("b", 30, failed=30, unit="bot")
    imports.add("b", 10)

    assert len(before) == 1
    assert watch(store.database, TRIAL, resumed=0, epoch=1).opened == ()


def test_the_reason_of_a_stop_is_kept(store: SqlStore, imports: Imports) -> None:
    imports.add("b", 45)
    watch(store.database, TRIAL, resumed=0, epoch=1)
    note_stop(store.database, "e", "too many errors")

    found = state_of(store.database, "e")
    assert (found.stopped, found.looks) == ("too many errors", 3)


def test_units_are_read_with_their_failures(store: SqlStore, imports: Imports) -> None:
    imports.add("a", 3, failed=1, unit="one")
    imports.add("b", 2, failed=2, unit="two")
    imports.add("b", 2, unit="three", epoch=2)

    found = unit_errors(store.database, "e", "error", 1, ("a", "b"))

    assert found == {"a": [(3, 1.0)], "b": [(2, 2.0)]}
