"""Which inputs an embedding batch contains: fair between requests, with little padding."""

from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.local_engine.embeddings.input_queue import ROUND, InputQueue, Pick
from strowger_gateway.schemas.holdings import Holder
from tests.local_engine.embeddings.embedding_services import request

BUDGET = 128


def padded(batch: list[Pick]) -> int:
    return len(batch) * max(len(pick.row) for pick in batch)


def ids(batch: list[Pick]) -> set[int]:
    return {pick.inputs.id for pick in batch}


def drained(queue: InputQueue, budget: int = BUDGET) -> list[list[Pick]]:
    batches: list[list[Pick]] = []
    while batch := queue.take(budget):
        batches.append(batch)
    return batches


requests = st.lists(st.lists(st.integers(1, 200), min_size=1, max_size=20), min_size=1, max_size=8)


@settings(deadline=None)
@given(requests)
def test_every_input_is_taken_once_and_a_batch_keeps_its_budget(lengths: list[list[int]]) -> None:
    queue = InputQueue()
    for id, some in enumerate(lengths):
        queue.add(request(id, *some))

    batches = drained(queue)

    taken = [(pick.inputs.id, pick.place) for batch in batches for pick in batch]
    assert sorted(taken) == [(id, at) for id, some in enumerate(lengths) for at in range(len(some))]
    assert all(len(batch) == 1 or padded(batch) <= BUDGET for batch in batches)
    assert queue.count == 0


@settings(deadline=None)
@given(requests, st.data())
def test_dropped_requests_are_never_taken_and_those_put_back_are(
    lengths: list[list[int]], data: st.DataObject
) -> None:
    queue = InputQueue()
    for id, some in enumerate(lengths):
        queue.add(request(id, *some))
    returned = queue.take(BUDGET)
    dropped = data.draw(st.sets(st.integers(0, len(lengths) - 1)))
    for id in dropped:
        queue.drop(id)

    queue.put_back(returned)

    left = sum(len(some) for id, some in enumerate(lengths) if id not in dropped)
    assert queue.count == left
    batches = drained(queue)
    assert sum(len(batch) for batch in batches) == left
    assert all(dropped.isdisjoint(ids(batch)) for batch in batches)


def test_a_short_request_waits_for_one_batch_of_a_long_one_at_most() -> None:
    queue = InputQueue()
    queue.add(request(1, *[60] * 1000))
    queue.take(BUDGET)
    queue.add(request(2, 5))

    batches = [queue.take(BUDGET), queue.take(BUDGET)]

    assert 2 in ids(batches[0]) | ids(batches[1])


def test_a_request_of_another_key_waits_for_one_batch_of_many_at_most() -> None:
    """Each of the many was served as little as the one."""
    queue = InputQueue()
    for id in range(1, 200):
        queue.add(request(id, 120, holder=Holder("many")))
    queue.take(BUDGET)
    queue.add(request(1000, 100, holder=Holder("other")))

    batches = [queue.take(BUDGET), queue.take(BUDGET)]

    assert 1000 in ids(batches[0]) | ids(batches[1])


def test_keys_of_one_team_share_its_turns() -> None:
    queue = InputQueue()
    for id in range(60):
        queue.add(request(id, 120, holder=Holder(f"a{id % 10}", "many")))
    for id in range(60, 120):
        queue.add(request(id, 120, holder=Holder("b", "one")))

    batches = [queue.take(BUDGET) for _ in range(40)]

    served = [pick.inputs.holder for batch in batches for pick in batch]
    assert abs(sum(holder.team == "one" for holder in served) - 20) <= 1
    assert {holder.key for holder in served} == {"b", *(f"a{number}" for number in range(10))}


def test_two_long_requests_take_turns() -> None:
    queue = InputQueue()
    queue.add(request(1, *[60] * 40))
    queue.add(request(2, *[50] * 40))

    half = [queue.take(BUDGET) for _ in range(20)]

    taken = [pick.inputs.id for batch in half for pick in batch]
    assert abs(taken.count(1) - taken.count(2)) < 6


def test_a_stream_of_new_requests_does_not_starve_an_old_one() -> None:
    queue = InputQueue()
    queue.add(request(0, 100, 100, 100))
    old = 0

    for id in range(1, 30):
        batch = queue.take(BUDGET)
        old += 0 in ids(batch)
        for pick in batch:
            if pick.inputs.id:
                queue.drop(pick.inputs.id)
        queue.add(request(id, 100))

    assert old == 3


def test_a_batch_is_filled_with_inputs_of_like_length() -> None:
    queue = InputQueue()
    queue.add(request(1, *range(1, 61)))

    batches = drained(queue)

    full = [batch for batch in batches if len(batch) > 1]
    used = sum(len(pick.row) for batch in full for pick in batch)
    assert used > 0.85 * sum(padded(batch) for batch in full)


def test_a_batch_exceeds_the_leaders_length_by_the_rounding_at_most() -> None:
    queue = InputQueue()
    queue.add(request(1, ROUND - 2))
    queue.add(request(2, ROUND))
    queue.add(request(3, ROUND + 1))

    batch = queue.take(BUDGET)

    assert ids(batch) == {1, 2}


def test_an_input_that_is_longer_than_the_budget_gets_its_own_batch() -> None:
    queue = InputQueue()
    queue.add(request(1, BUDGET + 1, 3))

    assert [len(batch) for batch in drained(queue)] == [1, 1]


def test_requests_past_their_deadline_are_returned() -> None:
    queue = InputQueue()
    queue.add(request(1, 5, deadline=3.0))
    queue.add(request(2, 5))

    assert [one.id for one in queue.late(2.9)] == []
    assert [one.id for one in queue.late(3.0)] == [1]
