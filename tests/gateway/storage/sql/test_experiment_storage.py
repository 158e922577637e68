"""Epochs, pauses and observations of an experiment, on both databases."""

from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.outcomes import (
    Outcomes,
    Per,
    UnitRow,
    summarised,
)
from strowger_gateway.gateway.statistics.sample_ratio import ArmCount, EpochCounts
from strowger_gateway.gateway.storage.sql.base import KnownRequest, Pause, RequestCounts, Run
from strowger_gateway.gateway.storage.sql.experiments.exclusions import (
    ExcludedName,
    exclude,
    excluded_names,
)
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import RequestRow
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.examples import examples
from tests.gateway.storage.sql.rows import NOON, request_row

HALVES = {"a": 50.0, "b": 50.0}


def test_an_epoch_lasts_until_something_changes(store: SqlStore) -> None:
    first = store.epoch("e", "f1", HALVES, 10.0)
    again = store.epoch("e", "f1", HALVES, 20.0)
    second = store.epoch("e", "f2", {"a": 10.0, "b": 90.0}, 30.0)
    back = store.epoch("e", "f1", HALVES, 40.0)
    other = store.epoch("other", "f1", HALVES, 40.0)

    assert again == first
    assert [epoch.number for epoch in (first, second, back, other)] == [1, 2, 3, 1]
    assert store.epochs("e") == (first, second, back)
    assert second.shares == {"a": 10.0, "b": 90.0}


def test_a_pause_survives_the_store_and_keeps_its_first_reason(url: Secret) -> None:
    before = open_store(url)
    before.pause("e", "too many errors", 10.0)
    before.pause("e", "too slow", 20.0)
    before.close()
    store = open_store(url)

    assert store.pauses() == {"e": Pause(experiment="e", reason="too many errors", at=10.0)}
    assert store.resume("e")
    assert not store.resume("e")
    assert store.pauses() == {}
    store.close()


def test_a_unit_that_came_before_the_comparison_counts_where_it_was_drawn(store: SqlStore) -> None:
    store.epoch("e", "f1", {"a": 1.0, "b": 0.0}, 1.0)
    store.epoch("e", "f2", {"a": 1.0, "b": 1.0}, 2.0)
    store.epoch("e", "f3", {"a": 1.0, "b": 3.0}, 3.0)
    rows = [
        request_row(f"{unit}-{epoch}", unit=unit, variant=variant, epoch=epoch)
        for unit, epoch, variant in (
            ("never back", 1, "a"), ("back", 1, "a"), ("back", 2, "b"), ("back", 3, "a"),
            ("late", 1, "a"), ("late", 3, "b"), ("new", 2, "a"), ("new", 3, "b"),
        )
    ]  # fmt: skip

    store.import_rows("f", 0, 9, rows)

    counted = {(one.epoch, arm.name): arm.units for one in store.counts("e") for arm in one.arms}
    assert {place: units for place, units in counted.items() if units} == {
        (1, "a"): 1,
        (2, "a"): 1,
        (2, "b"): 1,
        (3, "b"): 1,
    }


def test_units_count_for_the_split_where_they_were_seen_first(store: SqlStore) -> None:
    store.epoch("e", "f1", HALVES, 1.0)
    store.epoch("e", "f2", {"a": 90.0, "b": 10.0}, 2.0)
    late = [
        request_row("r4", unit="u1", variant="a", epoch=2),
        request_row("r5", unit="u3", epoch=2),
    ]
    early = [
        request_row("r1", unit="u1", variant="b"),
        request_row("r2", unit="u2", variant="a"),
        request_row("r3", unit="u1", variant="b"),
        request_row("r6", unit="u2", variant="b", epoch=2),
    ]

    store.import_rows("later", 0, 9, late)
    store.import_rows("earlier", 0, 9, early)

    assert store.counts("e") == (
        EpochCounts(
            epoch=1,
            arms=(ArmCount(name="a", weight=50, units=1), ArmCount(name="b", weight=50, units=1)),
        ),
        EpochCounts(
            epoch=2,
            arms=(ArmCount(name="a", weight=90, units=1), ArmCount(name="b", weight=10, units=0)),
        ),
    )


def test_requests_without_a_unit_are_counted_and_not_analysed(store: SqlStore) -> None:
    rows = [
        request_row("r1"),
        request_row("r2", fallback=True),
        request_row("r3", variant="", unit=""),
    ]

    store.import_rows("f", 0, 9, rows)

    assert store.request_counts("e") == [
        RequestCounts(epoch=1, variant="", requests=1, fallbacks=0, last=NOON),
        RequestCounts(epoch=1, variant="a", requests=2, fallbacks=1, last=NOON),
    ]
    assert [cell.variant for cell in store.outcomes("e", "error").cells] == ["a"]


def test_what_an_experiment_was_is_kept_with_what_it_has_seen(store: SqlStore) -> None:
    store.define("e", "as it was", 10.0)
    store.define("e", "as it is", 20.0)
    store.define("never asked", "x", 20.0)
    store.import_rows("f", 0, 9, [request_row("r1", time=NOON + 7), request_row("r2", variant="b")])
    store.import_rows("f", 9, 18, [request_row("r3", epoch=2, time=NOON + 3)])
    store.import_rows("f", 18, 27, [request_row("r4", experiment="untold")])

    assert store.runs() == [
        Run(experiment="e", definition="as it is", requests=3, last=NOON + 7),
        Run(experiment="untold", definition="", requests=1, last=NOON),
    ]
    assert [row.last - NOON for row in store.request_counts("e")] == [7.0, 0.0, 3.0]


def test_a_request_is_known_with_its_key_and_variant(store: SqlStore) -> None:
    store.import_rows("f", 0, 9, [request_row("r1", variant="b", key="team-a")])

    assert store.known_request("r1") == KnownRequest(
        request_id="r1", key="team-a", experiment="e", variant="b"
    )
    assert store.known_request("r2") is None


@pytest.mark.parametrize(
    ("row", "seen"),
    [
        (
            request_row("r", tokens=5, cost=0.1),
            {"error", "latency_ms", "output_tokens", "cost_usd"},
        ),
        (request_row("r", status=499, cost=0.1), {"error", "cost_usd"}),
        (request_row("r", status=400), {"error"}),
        (request_row("r", error="upstream_broken", tokens=5), {"error"}),
        (request_row("r", status=429), {"error"}),
        (request_row("r", status=429, error="connections_in_use"), {"error"}),
        (request_row("r", status=503, error="connections_in_use"), {"error"}),
    ],
)
def test_only_whole_answers_have_a_latency_and_every_request_an_error_or_none(
    row: RequestRow, seen: set[str], store: SqlStore
) -> None:
    store.import_rows("f", 0, 9, [row])

    metrics = ("error", "ttft_ms", "latency_ms", "output_tokens", "cost_usd")
    assert {name for name in metrics if store.outcomes("e", name).cells} == seen
    wrong = row.status in (200, 429) and (row.status == 429 or bool(row.error))
    wrong = wrong and row.error != "connections_in_use"
    assert store.outcomes("e", "error").cells[0].total == float(wrong)


_rows = st.lists(
    st.tuples(
        st.sampled_from(["u1", "u2", "u3", "U4", "ü5"]),
        st.integers(1, 3),
        st.sampled_from(["a", "B", "ä"]),
        st.booleans(),
    ),
    max_size=40,
)


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=_rows, per=st.sampled_from(["observation", "unit"]))
def test_the_database_finds_the_moments_that_python_finds(
    store: SqlStore, rows: list[tuple[str, int, str, bool]], per: Per
) -> None:
    """Names sort by code point on both sides, whatever the database's language."""
    _examples[id(store)] += 1
    name = f"e{_examples[id(store)]}"
    requests = [
        request_row(
            f"{name}-{number}",
            experiment=name,
            unit=unit,
            epoch=epoch,
            variant=variant,
            status=500 if failed else 200,
        )
        for number, (unit, epoch, variant, failed) in enumerate(rows)
    ]
    half = len(requests) // 2

    store.import_rows(name, 0, 1, requests[:half])
    store.import_rows(name, 1, 2, requests[half:])

    units = [
        UnitRow(unit=unit, epoch=epoch, variant=variant, count=1, total=float(failed))
        for unit, epoch, variant, failed in rows
    ]
    found = store.outcomes(name, "error", per=per)
    assert rounded(found) == rounded(summarised(units, per=per))


_examples: defaultdict[int, int] = defaultdict(int)


def rounded(outcomes: Outcomes) -> object:
    """To be compared: sums of thirds depend on their order."""
    cells = [
        (cell.place, cell.units, *(round(value, 9) for value in numbers))
        for cell in outcomes.cells
        if (
            numbers := (
                cell.count,
                cell.total,
                cell.count2,
                cell.total2,
                cell.product,
                cell.least or 0.0,
                cell.most or 0.0,
            )
        )
    ]
    links = [
        (link.one, link.other, link.units, *(round(value, 9) for value in numbers))
        for link in outcomes.links
        if (numbers := (link.counts, link.totals, link.total_count, link.count_total))
    ]
    return cells, links


def test_reasons_are_kept_on_one_line_without_what_a_terminal_obeys(store: SqlStore) -> None:
    said = "a\x00b\x1b[2J\n\u202ec"
    store.pause("e", said, 1.0)
    with store.database.writing() as session:
        name = ExcludedName(kind="key", name="k", reason=said, by="ada", at=1.0)
        exclude(session, "e", name)
        (found,) = excluded_names(session, "e")

    assert store.pauses()["e"].reason == found.reason == "a\ufffdb\ufffd[2J\ufffd\ufffdc"
