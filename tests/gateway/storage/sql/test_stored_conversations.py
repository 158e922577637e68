"""Stored conversations are trees: what the database finds is what Python finds."""

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.content.stored_responses.room import (
    READ_AGAIN_S,
    ResponseRoom,
    RoomBounds,
)
from strowger_gateway.gateway.storage.sql.errors import StoreFull
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.response_rows import CHAIN, StoredResponse
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret

ROOM = 1 << 30
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))]


class Model(Struct, eq=False):
    """The rows that should be there, in the order in which they came."""

    rows: dict[str, StoredResponse] = {}

    def path(self, id: str) -> list[str]:
        """Return the ids from the oldest that is there."""
        found: list[str] = []
        while id in self.rows:
            found.append(id)
            id = self.rows[id].previous
        return found[::-1]

    def bytes(self, key: str) -> int:
        return sum(row.bytes for row in self.rows.values() if row.key == key)


def made(chance: random.Random, model: Model, number: int) -> StoredResponse:
    key = chance.choice("ab")
    earlier = [row for row in model.rows.values() if row.key == key]
    previous = chance.choice(earlier) if earlier and chance.random() < 0.8 else None
    given, output = f'"{number}"' * chance.randint(1, 30), f"[{number}]"
    id = f"resp_{number}"
    items = len(given) + len(output)
    return StoredResponse(
        id=id,
        key=key,
        time=float(number),
        previous="" if previous is None else previous.id,
        root=id if previous is None else previous.root,
        input=given,
        output=output,
        resource="{}",
        item_bytes=items,
        bytes=items + 2,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_conversation_is_the_path_to_its_response(store: SqlStore, seed: int) -> None:
    chance, model, responses = random.Random(seed), Model(rows={}), store.stored_responses
    for number in range(120):
        row = made(chance, model, number)
        assert responses.add([row], ROOM) == [True]
        model.rows[row.id] = row
        if chance.random() < 0.15:
            gone = chance.choice(list(model.rows.values()))
            assert responses.remove(gone.key, [gone.id]) == 1
            del model.rows[gone.id]

    for id in (f"resp_{number}" for number in range(120)):
        for key in "ab":
            row = model.rows.get(id)
            found = responses.conversation(key, id, ROOM)
            if row is None or row.key != key:
                assert found is None
                assert responses.find(key, id) is None
                continue
            path = model.path(id)
            assert found is not None
            assert [turn.id for turn in found.turns] == path
            assert [turn.input for turn in found.turns] == [model.rows[one].input for one in path]
            assert found.missing == model.rows[path[0]].previous
            assert found.missing or found.root == row.root
            needed = sum(model.rows[one].item_bytes for one in path)
            shorter = responses.conversation(key, id, needed - 1)
            assert shorter is not None
            assert shorter.too_long


@pytest.mark.parametrize("seed", SEEDS)
def test_a_key_never_has_more_than_its_bytes(store: SqlStore, seed: int) -> None:
    most = 1_500
    chance, model, responses = random.Random(seed), Model(rows={}), store.stored_responses
    for number in range(150):
        row = made(chance, model, number)
        (added,) = responses.add([row], most)
        if added:
            model.rows[row.id] = row
        roots = {one.root for one in model.rows.values()}
        for id, one in list(model.rows.items()):
            if responses.find(one.key, id) is None:
                assert one.key == row.key
                assert one.root != row.root
                del model.rows[id]
        left = {one.root for one in model.rows.values()}
        assert all(one.root in left for one in model.rows.values())
        last = {
            root: max(one.time for one in model.rows.values() if one.root == root) for root in left
        }
        assert all(root not in last for root in roots - left), "conversations go as a whole"
        assert model.bytes("a") <= most
        assert model.bytes("b") <= most
        assert (
            added
            or sum(one.bytes for one in model.rows.values() if one.root == row.root) + row.bytes
            > most
        )


def test_the_bytes_of_a_key_are_those_of_its_rows_whoever_writes_at_the_same_time(
    store: SqlStore,
) -> None:
    """Several processes add, make room, delete and sweep at once; none blocks another for good."""
    responses, most = store.stored_responses, 3_000

    def work(thread: int) -> None:
        chance = random.Random(thread)
        for turn in range(25):
            rows = [
                replace(made(chance, Model(rows={}), turn), id=f"resp_{thread}_{turn}_{place}")
                for place in range(4)
            ]
            rows = [replace(row, root=row.id, previous="") for row in rows]
            assert responses.add(rows, most) == [True] * 4
            gone = chance.choice(rows)
            responses.remove(gone.key, [gone.id])
            if turn % 10 == 9:
                responses.remove_before(turn - 5.0)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))

    with store._database.reading() as session:  # pyright: ignore[reportPrivateUsage]
        counted = session.rows(
            tuple[str, int], "SELECT key, bytes FROM stored_response_keys ORDER BY key"
        )
        summed = session.rows(
            tuple[str, int],
            "SELECT key, CAST(SUM(bytes) AS BIGINT) FROM stored_responses"
            " GROUP BY key ORDER BY key",
        )
    assert counted == summed
    assert all(0 < size <= most for _, size in counted)


def test_gateways_that_make_room_for_all_keys_at_once_stay_near_the_bound(store: SqlStore) -> None:
    responses, most, batch = store.stored_responses, 20_000, 5

    def work(thread: int) -> int:
        chance, full = random.Random(thread), 0
        later = count(step=READ_AGAIN_S)
        bounds = RoomBounds(most=most, spare=0)
        room = ResponseRoom(responses, lambda: bounds, lambda: next(later))
        for turn in range(20):
            rows = [
                replace(made(chance, Model(rows={}), turn), id=f"resp_{thread}_{turn}_{place}")
                for place in range(batch)
            ]
            rows = [replace(row, root=row.id, previous="") for row in rows]
            try:
                room.make(rows)
                assert responses.add(rows, most) == [True] * batch
            except StoreFull:
                full += 1
        return full

    with ThreadPoolExecutor(4) as threads:
        refused = list(threads.map(work, range(4)))

    largest = 200
    assert responses.total() <= most + 4 * batch * largest
    assert responses.total() >= most / 2
    assert sum(refused) <= 4


def test_old_responses_are_deleted_with_their_bytes(store: SqlStore) -> None:
    chance, model, responses = random.Random(7), Model(rows={}), store.stored_responses
    for number in range(50):
        row = made(chance, model, number)
        responses.add([row], ROOM)
        model.rows[row.id] = row

    assert responses.remove_before(40.0) == 40

    assert [responses.find(row.key, row.id) is not None for row in model.rows.values()] == (
        [False] * 40 + [True] * 10
    )
    room = sum(row.bytes for row in model.rows.values() if row.key == "a" and row.time >= 40)
    big = made(chance, Model(rows={}), 99)
    assert responses.add([big], room + sum(row.bytes for row in model.rows.values())) == [True]


def test_a_conversation_is_found_without_reading_its_items(tmp_path: Path) -> None:
    """In SQLite, the columns behind the items are reached by reading all of their pages."""
    store = open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    store.prepare()
    with store.database.reading() as session:
        explain = f"EXPLAIN QUERY PLAN {CHAIN} SELECT id FROM chain"
        plan = session.rows(tuple[int, int, int, str], explain, "", "", 1)
    store.close()

    steps = [step for *_, step in plan if "stored_responses" in step]
    assert len(steps) == 2
    assert "USING COVERING INDEX stored_responses_chain" in steps[1]
