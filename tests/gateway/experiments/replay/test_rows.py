"""Runs in the store, on both databases: leases, money, and how long texts are kept."""

from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.gateway.experiments.replay.definition import Definition, ReplayArm
from strowger_gateway.gateway.experiments.replay.prompts import prompt_of
from strowger_gateway.gateway.experiments.replay.rows import (
    CallOutcome,
    LeaseLost,
    Pair,
    ReplayRows,
)
from strowger_gateway.gateway.experiments.replay.spending import Spent
from strowger_gateway.gateway.experiments.replay.votes import VoteRows
from strowger_gateway.gateway.storage.sql.errors import StoreRejected
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.stand_ins.postgres import Postgres

PROMPT = prompt_of("chat", {"messages": [{"role": "user", "content": "hello"}]})
DEFINITION = Definition(
    control=ReplayArm(name="old", model="old"),
    treatment=ReplayArm(name="new", model="new"),
    source="prompts.jsonl",
    sample=1,
    per_unit=1,
    answer_tokens=1,
    judge_tokens=1,
)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[SqlStore]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'store.db'}"
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty_database()
    found = open_store(Secret(url))
    yield found
    found.close()


@pytest.fixture
def rows(store: SqlStore) -> ReplayRows:
    """With a run of two prompts."""
    found = ReplayRows(store.database)
    found.create("r", DEFINITION, [PROMPT, PROMPT], left_out={"bad": 3}, salt="s", now=100.0)
    return found


def test_a_lease_passes_on_when_it_expires_or_its_holder_is_gone(rows: ReplayRows) -> None:
    assert rows.lease("r", "one", 100.0) == ""
    assert rows.lease("r", "two", 129.0) == "one"
    assert rows.lease("r", "one", 129.0) == ""
    assert rows.lease("r", "two", 158.0, gone=["one"]) == ""
    assert rows.lease("r", "three", 188.1) == ""


def test_a_command_that_has_lost_the_lease_writes_nothing(rows: ReplayRows) -> None:
    rows.lease("r", "one", 0.0)
    rows.lease("r", "two", 100.0)

    with pytest.raises(LeaseLost):
        rows.reserve("r", "one", 0, "control", Spent(nanos=1, tokens=1))

    assert rows.charged("r") == Spent()


def test_a_call_without_an_outcome_stays_charged_and_a_second_one_is_added(
    rows: ReplayRows,
) -> None:
    rows.lease("r", "one", 0.0)
    rows.reserve("r", "one", 0, "control", Spent(nanos=50, tokens=5))
    rows.reserve("r", "one", 0, "control", Spent(nanos=50, tokens=5))
    outcome = CallOutcome(state="done", text="zero \0 and a half pair \ud800", passed=True)
    rows.settle("r", "one", 0, "control", Spent(nanos=-30, tokens=-3), outcome)

    (call,) = rows.calls("r", 0).values()
    assert rows.charged("r") == Spent(nanos=70, tokens=7)
    assert (call.attempts, call.state, call.passed) == (2, "done", True)
    assert call.text == "zero  and a half pair ?"


def test_a_pair_is_undecided_until_its_score_is_stored(rows: ReplayRows) -> None:
    rows.lease("r", "one", 0.0)
    pair = Pair(place=1, unit="u", how="judge", score=0.5, first=1.0, second=0.0, length=-0.1)
    rows.decide("r", "one", pair)

    found = rows.pairs("r")
    assert rows.undecided("r") == [0]
    assert [one.score for one in found] == [None, 0.5]
    assert (found[1].first, found[1].second, found[1].length) == (1.0, 0.0, -0.1)


def test_a_run_is_made_once_and_removed_as_a_whole(rows: ReplayRows) -> None:
    with pytest.raises(StoreRejected):
        rows.create("r", DEFINITION, [], left_out={}, salt="", now=0.0)

    assert rows.remove("r")
    assert not rows.remove("r")
    assert rows.run("r") is None


def test_texts_are_deleted_with_old_payloads_and_the_report_stays(
    store: SqlStore, rows: ReplayRows
) -> None:
    rows.lease("r", "one", 0.0)
    rows.reserve("r", "one", 0, "control", Spent(nanos=50, tokens=5))
    rows.settle("r", "one", 0, "control", Spent(), CallOutcome(state="done", text="secret"))

    store.prune(0.0, 0.0, payloads_before=100.0)
    kept = rows.calls("r", 0)["control"].text
    store.prune(0.0, 0.0, payloads_before=101.0)
    run = rows.run("r")

    assert kept == "secret"
    assert run is not None
    assert run.redacted
    assert rows.calls("r", 0)["control"].text == ""
    assert rows.charged("r") == Spent(nanos=50, tokens=5)
    with pytest.raises(LookupError, match="r has no prompt at place 0"):
        rows.prompt("r", 0)


def test_of_each_person_the_first_vote_on_a_pair_counts(store: SqlStore, rows: ReplayRows) -> None:
    rows.lease("r", "one", 0.0)
    for place in (0, 1):
        pair = Pair(place=place, unit="", how="tie", score=0.5, first=None, second=None, length=0)
        rows.decide("r", "one", pair)
    votes = VoteRows(store.database)

    assert votes.next_place("r", "ada") == 0
    assert votes.add("r", 0, "ada", 1.0, 1.0)
    assert not votes.add("r", 0, "ada", 0.0, 2.0)
    assert votes.add("r", 0, "ben", 0.5, 3.0)
    assert votes.scores("r") == {0: 0.75}
    assert (votes.next_place("r", "ada"), votes.next_place("r", "cy", after=0)) == (1, 1)
    assert votes.last("ada") == ("r", 0, 1.0)
