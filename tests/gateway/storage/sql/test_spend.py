"""The sums of what requests have cost: exact, each request once, and readable in parts."""

import random

import pytest

from strowger_gateway.gateway.storage.sql.rows import AttemptRow, RequestRow
from strowger_gateway.gateway.storage.sql.spend_rows import Amount, Holding, Payer
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from tests.gateway.storage.sql.rows import NOON, attempt_row, request_row

EVER = (0, 1 << 60)
PAYER = Payer("key", "", "", "chat", "chat")


def spent(store: SqlStore, window: tuple[int, int] = EVER) -> Amount:
    (sums,) = store.spend.read(-1, [window], "me").whole
    return sum(sums.values(), Amount())


def test_the_sums_are_those_of_the_attempts_exactly(store: SqlStore) -> None:
    """A hundred thousand tenths of a cent and other floats, in integers of 10⁻⁹ US dollars."""
    draws, nanos = random.Random(1), list[int]()
    for number in range(40):
        requests, attempts = list[RequestRow](), list[AttemptRow]()
        for place in range(50):
            name, cost = f"{number}-{place}", draws.randrange(10 ** draws.randrange(1, 14))
            nanos.append(cost)
            requests.append(request_row(name, time=NOON + draws.randrange(10_000)))
            attempts.append(attempt_row(name, cost=cost / 1e9))
        store.import_rows("f", number, number + 1, [*requests, *attempts])

    assert spent(store).nanos == sum(nanos)


def test_a_request_counts_once_and_a_mirrors_copy_never(store: SqlStore) -> None:
    rows = [
        request_row("r"),
        attempt_row("r", 1, role="failed", cost=0.25),
        attempt_row("r", 2, cost=0.5),
        attempt_row("r", 3, role="mirror", cost=8.0),
    ]
    store.import_rows("f", 0, 1, rows)
    store.import_rows("g", 0, 1, rows)
    store.import_rows("g", 1, 2, [attempt_row("r", 4, role="mirror", cost=8.0)])

    assert spent(store).nanos == 750_000_000


def test_a_rejected_row_costs_no_other_row_its_place_in_the_sums(store: SqlStore) -> None:
    rows = [
        request_row("good"),
        attempt_row("good", cost=0.5),
        request_row("bad", tokens=1 << 70),
        attempt_row("bad", cost=4.0),
        request_row("fine"),
        attempt_row("fine", cost=0.25),
    ]
    result = store.import_rows("f", 0, 1, rows)

    assert result.rejected >= 1
    assert spent(store).nanos == 750_000_000


def test_changes_since_a_version_add_up_to_the_whole(store: SqlStore) -> None:
    known = store.spend.read(-1, [EVER], "me")
    total = Amount()
    for number in range(5):
        rows = [request_row(f"{number}"), attempt_row(f"{number}", cost=0.1 * number)]
        store.import_rows("f", number, number + 1, rows)
        if number % 2:
            known = store.spend.read(known.version, [], "me")
            total = sum((one.amount for one in known.changes or ()), total)
    last = store.spend.read(known.version, [], "me")
    total = sum((one.amount for one in last.changes or ()), total)

    assert total == spent(store)
    assert store.spend.read(last.version, [], "me").changes == ()


def test_old_sums_lose_their_time_and_changes_are_forgotten(store: SqlStore) -> None:
    store.import_rows("f", 0, 1, [request_row("old", time=NOON), attempt_row("old", cost=0.5)])
    known = store.spend.read(-1, [], "me").version
    late = NOON + 50 * 86_400
    store.import_rows("f", 1, 2, [request_row("new", time=late), attempt_row("new", cost=0.25)])

    store.prune(late, late)

    assert spent(store).nanos == 750_000_000
    assert spent(store, (1, 1 << 60)).nanos == 250_000_000
    assert store.spend.read(known, [], "me").changes is None


def test_payers_are_kept_apart_and_a_cheaper_model_is_the_one_that_pays(store: SqlStore) -> None:
    row = RequestRow(
        request_id="r", surface="openai", time=NOON, status=200, ms=1.0, key="k", team="t",
        user="u", model="asked", route="cheap", budget="monthly",
    )  # fmt: skip
    store.import_rows("f", 0, 1, [row, attempt_row("r", cost=0.5)])
    (sums,) = store.spend.read(-1, [EVER], "me").whole

    assert list(sums) == [Payer("k", "t", "u", "cheap", "cheap")]


def test_two_gateways_hold_no_more_than_is_free(store: SqlStore) -> None:
    spend = store.spend
    version = spend.read(-1, [], "one").version

    def wants(amount: int, least: int = 0) -> Holding:
        return Holding(
            budget="b", subject="", amount=amount, least=least, free=100,
            counts=lambda one: one.amount.nanos // 10_000_000,
        )  # fmt: skip

    assert spend.hold("one", 1, version, [wants(60)]) == (60,)
    assert spend.hold("two", 1, version, [wants(60)]) == (40,)
    assert spend.read(version, [], "two").held == {("one", "b", ""): 60}
    assert spend.hold("two", 2, version, [wants(10)]) == (10,)
    store.import_rows("f", 0, 1, [request_row("r"), attempt_row("r", cost=0.25)])
    assert spend.hold("one", 2, version, [wants(70)]) == (65,), "25 were spent since"
    assert spend.hold("two", 3, version, [wants(30)]) == (10,)
    assert spend.hold("two", 4, version, [wants(30, least=12)]) == (12,), "it is used already"
    assert spend.hold("one", 3, version - 1000, [wants(90)]) == (65,), "what was spent is unknown"
    assert spend.hold("one", 4, version, [wants(10)]) == (10,)
    assert spend.leave("one")
    assert not spend.leave("one")
    assert spend.read(version, [], "two").held == {}


@pytest.mark.parametrize("batches", [(1, 2, 3), (3, 1, 2)])
def test_the_last_batch_of_each_writer_is_known(store: SqlStore, batches: tuple[int, ...]) -> None:
    for place, batch in enumerate(batches):
        row = RequestRow(
            surface="openai",
            request_id=f"r{batch}",
            time=NOON,
            status=200,
            ms=1.0,
            writer="w",
            batch=batch,
        )
        store.import_rows("f", place, place + 1, [row])

    assert store.spend.read(-1, [], "me").imported == {"w": 3}
