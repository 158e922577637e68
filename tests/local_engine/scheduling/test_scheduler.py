"""The scheduler and the block pool, on values; every step is followed by an integrity check."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.local_engine.scheduling.block_pool import BlockPool, CorruptBlocks
from strowger_gateway.local_engine.scheduling.free_extents import FreeExtents
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.sequence import Sequence, State, new_sequence
from strowger_gateway.local_engine.scheduling.steps import AGEING_S, SchedulerLimits, Step
from strowger_gateway.schemas.errors import InvalidRequest
from tests.examples import examples

BLOCK = 4


def scheduler(
    *, pages: int = 64, budget: int = 16, seats: int = 8, context: int = 1000, cache: bool = True
) -> Scheduler:
    limits = SchedulerLimits(max_step_tokens=budget, max_sequences=seats, max_seq_len=context)
    return Scheduler(limits, BlockPool(pages, BLOCK, prefix_cache=cache))


def sequence(
    id: int, length: int = 5, *, priority: int = 5, arrival: float = 0.0, first: int = 0
) -> Sequence:
    return new_sequence(
        id=id,
        prompt=[first + i for i in range(length)],
        max_total=length + 100,
        priority=priority,
        arrival=arrival,
    )


def compute(engine: Scheduler, step: Step, *, token: int = 7) -> list[int]:
    """Act as the engine: compute a step and return the ids of the sequences that got a token."""
    drawn: list[int] = []
    for chunk in step.chunks:
        engine.advance(chunk)
        if chunk.rows:
            chunk.sequence.tokens.append(token)
            drawn.append(chunk.sequence.id)
    engine.check()
    return drawn


def counts(step: Step) -> dict[int, int]:
    return {chunk.sequence.id: chunk.count for chunk in step.chunks}


def test_a_long_prompt_is_computed_in_chunks_while_others_continue() -> None:
    engine = scheduler(budget=8)
    engine.add(sequence(1, 3))
    compute(engine, engine.schedule(0.0))
    engine.add(sequence(2, 20, first=100))

    steps = [engine.schedule(0.0)]
    drawn = [compute(engine, steps[0])]
    for _ in range(2):
        steps.append(engine.schedule(0.0))
        drawn.append(compute(engine, steps[-1]))

    assert [counts(step) for step in steps] == [{1: 1, 2: 7}, {1: 1, 2: 7}, {1: 1, 2: 6}]
    assert drawn == [[1], [1], [1, 2]]


def test_equal_prompt_beginnings_of_one_tenant_are_computed_once() -> None:
    engine = scheduler()
    first = sequence(1, 10)
    engine.add(first)
    compute(engine, engine.schedule(0.0))
    engine.finish(first)

    engine.add(sequence(2, 10))
    stranger = sequence(3, 10)
    stranger.salt = b"another tenant"
    engine.add(stranger)

    assert counts(engine.schedule(0.0)) == {2: 2, 3: 10}


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    engine = scheduler()
    first = sequence(1, 8)
    engine.add(first)
    compute(engine, engine.schedule(0.0))
    engine.add(sequence(2, 8))

    assert counts(engine.schedule(0.0)) == {1: 1, 2: 4}


def test_without_the_prefix_cache_nothing_is_shared() -> None:
    engine = scheduler(cache=False)
    engine.add(sequence(1, 10))
    compute(engine, engine.schedule(0.0))
    engine.add(sequence(2, 10))

    assert counts(engine.schedule(0.0)) == {1: 1, 2: 10}


def test_the_latest_sequence_is_preempted_when_pages_run_out_and_resumes() -> None:
    engine = scheduler(pages=5, budget=32, cache=False)
    early, late = sequence(1, 4, arrival=1.0), sequence(2, 4, arrival=2.0, first=50)
    engine.add(early)
    engine.add(late)
    pages = late.blocks
    while late.preempted == 0:
        compute(engine, engine.schedule(3.0))

    assert early.state is State.RUNNING
    assert late.state is State.WAITING
    assert late.blocks == []
    # What knows a sequence's pages by their list must see that they are no longer the same.
    assert late.blocks is not pages
    generated = late.generated
    engine.finish(early)
    compute(engine, engine.schedule(3.0))
    assert late.generated == generated + 1


def test_a_better_priority_preempts_a_worse_one() -> None:
    engine = scheduler(seats=1)
    worse, better = sequence(1, priority=5), sequence(2, priority=1, arrival=9.0, first=50)
    engine.add(worse)
    compute(engine, engine.schedule(9.0))
    engine.add(better)

    step = engine.schedule(9.0)

    assert counts(step) == {2: 5}
    assert worse.state is State.WAITING


def test_waiting_improves_the_place_in_the_queue() -> None:
    engine = scheduler(seats=1)
    old, fresh = sequence(1, priority=5), sequence(2, priority=2, arrival=5 * AGEING_S, first=50)
    engine.add(fresh)
    engine.add(old)

    assert counts(engine.schedule(5 * AGEING_S)) == {1: 5}


def test_a_sequence_past_its_deadline_is_finished_and_freed() -> None:
    engine = scheduler()
    running, waiting = sequence(1), sequence(2)
    running.deadline = waiting.deadline = 10.0
    engine.add(running)
    compute(engine, engine.schedule(0.0))
    engine.add(waiting)

    step = engine.schedule(10.0)

    assert step.expired == (running, waiting)
    assert step.chunks == ()
    assert running.blocks == []
    engine.check()


@pytest.mark.parametrize(("length", "pages", "context"), [(0, 9, 99), (99, 99, 99), (36, 9, 99)])
def test_a_prompt_that_can_never_fit_is_rejected(length: int, pages: int, context: int) -> None:
    engine = scheduler(pages=pages, context=context)

    with pytest.raises(InvalidRequest, match="prompt"):
        engine.add(sequence(1, length))


def test_a_sequence_alone_ends_where_the_cache_ends() -> None:
    engine = scheduler(pages=9)
    long = sequence(1, 30)
    engine.add(long)

    assert long.max_total == 36


def test_neighbouring_pages_are_preferred_so_that_sequences_stay_in_one_piece() -> None:
    engine = scheduler(pages=256, budget=64)
    sequences = [sequence(i, 6, first=100 * i) for i in range(4)]
    for one in sequences:
        engine.add(one)

    for _ in range(60):
        compute(engine, engine.schedule(0.0))

    for one in sequences:
        assert one.blocks == list(range(one.blocks[0], one.blocks[0] + len(one.blocks)))
    starts = sorted(one.blocks[0] for one in sequences)
    assert {b - a for a, b in pairwise(starts)} == {64}


def test_the_check_finds_a_page_with_two_owners() -> None:
    pool = BlockPool(8, BLOCK)
    blocks: list[int] = []
    pool.grow(blocks, 2)

    with pytest.raises(CorruptBlocks):
        pool.check([blocks, blocks])


@given(st.lists(st.tuples(st.integers(0, 63), st.integers(1, 9)), max_size=60))
def test_extents_are_a_set(moves: list[tuple[int, int]]) -> None:
    extents, model = FreeExtents(), set(range(64))
    extents.add(0, 64)
    for first, limit in moves:
        if first in model:
            run = 0
            while run < limit and first + run in model:
                model.remove(first + run)
                run += 1
            assert extents.take(first, limit) == run
        else:
            assert extents.take(first, limit) == 0
            extents.add(first)
            model.add(first)
        assert list(extents) == sorted(model)
        assert len(extents) == len(model)
        if model:
            assert extents.best_start(limit) in model


class Trace:
    """Random arrivals, cancellations and steps, and their invariants."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.engine = scheduler(
            pages=self.random.choice((12, 40, 200)),
            budget=self.random.choice((1, 5, 64)),
            seats=self.random.choice((1, 3, 16)),
            cache=self.random.random() < 0.8,
        )
        self.live: dict[int, Sequence] = {}
        self.now = 0.0
        self.born = 0

    def move(self) -> None:
        self.now += self.random.random()
        match self.random.choice(("add", "cancel", "step", "step", "step", "step")):
            case "add":
                self.add()
            case "cancel" if self.live:
                one = self.live.pop(self.random.choice(list(self.live)))
                self.engine.finish(one)
                assert one.blocks == []
            case _:
                self.step()
        self.engine.check()

    def add(self) -> None:
        self.born += 1
        one = sequence(
            self.born,
            self.random.randint(1, 30),
            priority=self.random.randint(1, 5),
            arrival=self.now,
            first=self.random.choice((0, 0, 1000)),
        )
        if self.random.random() < 0.1:
            one.deadline = self.now + self.random.random() * 10
        self.engine.add(one)
        self.live[one.id] = one

    def step(self) -> None:
        step = self.engine.schedule(self.now)
        limits = self.engine._limits  # pyright: ignore[reportPrivateUsage]  # the invariant's bounds
        assert sum(chunk.count for chunk in step.chunks) <= limits.max_step_tokens
        assert self.engine.running <= limits.max_sequences
        for one in step.expired:
            del self.live[one.id]
        if self.live and not step.expired:
            assert step.chunks, "work is waiting and nothing runs"
        for chunk in step.chunks:
            one = chunk.sequence
            assert chunk.start == one.computed
            assert len(one.blocks) * BLOCK >= chunk.start + chunk.count
        compute(self.engine, step, token=self.random.randint(0, 3))
        for one in list(self.live.values()):
            if len(one.tokens) >= min(one.max_total, one.prompt + 12):
                self.engine.finish(self.live.pop(one.id))


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32))
def test_random_requests_lose_no_page_and_share_none_by_mistake(seed: int) -> None:
    trace = Trace(seed)

    for _ in range(200):
        trace.move()
    for _ in range(5000):
        if not trace.live:
            break
        trace.step()

    assert not trace.live, "a sequence never ended"
    assert trace.engine.running == trace.engine.waiting == 0
    blocks = trace.engine.blocks
    assert blocks.free == blocks.total
