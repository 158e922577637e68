"""Keys share an engine: its places, its pages and the tokens of a step. Every step is checked."""

import random
from collections import Counter
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.sequence import Sequence, State, new_sequence, twin
from strowger_gateway.local_engine.scheduling.steps import SchedulerLimits, Step
from strowger_gateway.local_engine.scheduling.token_shares import Demand, split_tokens
from strowger_gateway.schemas.holdings import Holder
from tests.examples import examples

BLOCK = 4
A, B, C = Holder("a"), Holder("b"), Holder("c")


class Keys:
    """A scheduler with sequences of several keys, each of which ends after `new` tokens."""

    def __init__(
        self, *, pages: int = 4096, budget: int = 64, seats: int = 16, cache: bool = True
    ) -> None:
        limits = SchedulerLimits(max_step_tokens=budget, max_sequences=seats, max_seq_len=100_000)
        self.engine = Scheduler(limits, BlockPool(pages, BLOCK, prefix_cache=cache))
        self.live: list[Sequence] = []
        self.now = 0.0
        self.steps = 0
        self._ids = count(1)

    def add(
        self, holder: Holder, times: int = 1, *, length: int = 5, new: int = 400, priority: int = 5
    ) -> list[Sequence]:
        added: list[Sequence] = []
        for _ in range(times):
            id = next(self._ids)
            one = new_sequence(
                id=id,
                prompt=[1000 + id] * length,
                max_total=length + new,
                priority=priority,
                arrival=self.now,
                holder=holder,
                salt=holder.key.encode(),
            )
            self.engine.add(one)
            added.append(one)
        self.live += added
        return added

    def step(self, times: int = 1) -> Step:
        step = self.engine.schedule(self.now)
        for _ in range(times - 1):
            self._compute(step)
            step = self.engine.schedule(self.now)
        self._compute(step)
        return step

    def step_with(self, beams: list[Sequence]) -> Step:
        """Run a step without drawing tokens for beams."""
        lengths = {one.id: len(one.tokens) for one in beams}
        step = self.step()
        for one in beams:
            del one.tokens[lengths[one.id] :]
        return step

    def steps_until(self, done: Callable[[], bool], *, most: int = 5000) -> int:
        for steps in range(most):
            if done():
                return steps
            self.step()
        pytest.fail("it never happened")

    def running(self, holder: Holder) -> int:
        return sum(one.state is State.RUNNING for one in self.live if one.holder == holder)

    def _compute(self, step: Step) -> None:
        self.now += 0.02
        self.engine.check()
        assert sum(chunk.count for chunk in step.chunks) <= self.engine.budget
        assert step.chunks or not self.live, "work is waiting and nothing runs"
        for chunk in step.chunks:
            assert chunk.sequence.state is State.RUNNING
            assert chunk.start == chunk.sequence.computed
            if chunk.rows:
                chunk.sequence.tokens.append(7)
            self.engine.advance(chunk)
            if len(chunk.sequence.tokens) >= chunk.sequence.max_total:
                self.engine.finish(chunk.sequence)
                self.live.remove(chunk.sequence)


@pytest.mark.parametrize("priority", [5, 3, 1])
def test_a_newcomer_of_another_key_starts_in_the_next_step(priority: int) -> None:
    """Whatever priority the many requests of the first key have, and before others were seen."""
    keys = Keys(seats=16, budget=512)
    keys.add(A, 300, priority=priority)
    keys.step(5)
    assert keys.running(A) == 16

    (victim,) = keys.add(B)
    keys.step()

    assert victim.generated == 1
    assert keys.running(A) == 15


@pytest.mark.parametrize("priority", [5, 3, 1])
def test_a_key_with_short_requests_never_waits_for_the_many_of_another(priority: int) -> None:
    keys = Keys(seats=16, budget=512)
    keys.add(A, 300, priority=priority)
    for _ in range(20):
        (victim,) = keys.add(B, new=4)

        assert keys.steps_until(lambda one=victim: one.state is State.FINISHED) <= 6
    assert keys.engine.preemptions <= 1


def test_two_keys_with_many_requests_leave_places_to_a_third() -> None:
    keys = Keys(seats=16, budget=512)
    keys.add(A, 100, priority=3)
    keys.add(B, 100, priority=3)
    keys.step(5)
    waits: list[int] = []

    for _ in range(10):
        (victim,) = keys.add(C, new=4, priority=3)
        waits.append(keys.steps_until(lambda one=victim: one.generated > 0))
        keys.steps_until(lambda one=victim: one.state is State.FINISHED)

    assert max(waits) <= 2
    assert keys.running(A) + keys.running(B) >= 15


def test_a_team_of_many_keys_counts_like_a_team_of_one() -> None:
    keys = Keys(seats=16, budget=512)
    for number in range(15):
        keys.add(Holder(f"a{number}", "many"), 20)
    keys.step(3)
    keys.add(Holder("b", "one"), 20)
    keys.step(3)

    assert keys.running(Holder("b", "one")) == 8


def test_long_prompts_of_one_key_delay_a_short_one_of_another_by_a_step() -> None:
    keys = Keys(seats=16, budget=512, pages=30_000)
    keys.add(A, 3, length=30_000)
    keys.step(3)

    (victim,) = keys.add(B, length=200)
    keys.step()

    assert victim.generated == 1


@pytest.mark.parametrize("urgent", [1, 3])
def test_long_prompts_of_a_better_priority_leave_an_eighth_of_a_step(urgent: int) -> None:
    keys = Keys(seats=16, budget=512, pages=30_000)
    keys.add(A, 3, length=30_000, priority=urgent)
    keys.step(3)

    (victim,) = keys.add(B, length=100)
    keys.step(2)

    assert victim.generated == 1


def test_a_prompt_alone_gets_all_tokens_of_a_step_while_others_only_answer() -> None:
    keys = Keys(seats=16, budget=512)
    keys.add(A, 3)
    keys.step()
    (long,) = keys.add(B, length=2000)

    step = keys.step()

    assert {c.sequence.id: c.count for c in step.chunks}[long.id] == 509


def test_what_several_keys_read_at_a_time_fills_every_step() -> None:
    keys = Keys(seats=4, budget=64)
    keys.add(A, 3, length=500)
    keys.add(B, 3, length=300)
    keys.add(C, 1, length=5)

    for _ in range(16):
        assert sum(chunk.count for chunk in keys.step().chunks) == 64


def test_the_key_with_most_pages_gives_way_when_pages_run_out() -> None:
    keys = Keys(seats=16, budget=512, pages=100)
    keys.add(A, 8, length=30)
    (small,) = keys.add(B, length=4, new=60)

    keys.steps_until(lambda: small.state is State.FINISHED)

    assert small.preempted == 0
    assert keys.engine.preemptions > 0


def test_pages_that_a_keys_sequences_share_count_once() -> None:
    keys = Keys(seats=16, budget=512, pages=120)
    (first,) = keys.add(A, length=200, new=20)
    keys.add(B)
    keys.step(2)
    others = [
        new_sequence(
            id=100 + n, prompt=first.tokens[:200], max_total=220, holder=A, salt=b"a", arrival=1.0
        )
        for n in range(8)
    ]
    for one in others:
        keys.engine.add(one)
    keys.live += others

    keys.step()

    assert keys.running(A) == 9


def test_a_large_prompt_keeps_its_turn_while_small_ones_of_others_pass() -> None:
    """It needs more pages than are ever free, unless others leave them."""
    keys = Keys(seats=16, budget=512, pages=400)
    keys.add(A, 8, length=160, new=200)
    keys.step(4)
    (large,) = keys.add(B, length=1300, new=5)
    started = 0

    for _ in range(300):
        if large.generated:
            break
        (small,) = keys.add(C, length=8, new=3)
        keys.step(3)
        started += small.generated > 0

    assert large.generated
    assert started > 20


def test_a_prompt_as_large_as_the_cache_is_served_among_a_stream_of_others() -> None:
    keys = Keys(seats=16, budget=512, pages=400)
    keys.add(A, 4, length=20, new=50)
    keys.step(4)
    (large,) = keys.add(B, length=1580, new=5)

    for _ in range(400):
        if large.state is State.FINISHED:
            break
        keys.add(A, length=20, new=50)
        keys.step(3)

    assert large.state is State.FINISHED


def test_keys_do_not_preempt_each_other_in_turn() -> None:
    keys = Keys(seats=8, budget=512)
    for holder in (A, B, C):
        keys.add(holder, 20, new=300)
    keys.step(3)
    before = keys.engine.preemptions

    for _ in range(100):
        keys.step()

    assert keys.engine.preemptions == before
    assert sorted(keys.running(holder) for holder in (A, B, C)) == [2, 3, 3]


def test_an_urgent_request_preempts_a_less_urgent_one_of_the_key_that_holds_most() -> None:
    keys = Keys(seats=8, budget=512)
    keys.add(A, 6, priority=5)
    keys.add(B, 2, priority=5)
    keys.step(2)

    (urgent,) = keys.add(B, priority=1)
    keys.step()

    assert urgent.generated == 1
    assert (keys.running(A), keys.running(B)) == (5, 3)


def test_what_gave_way_resumes_before_later_requests_of_its_key() -> None:
    keys = Keys(seats=8, budget=512)
    many = keys.add(A, 30)
    keys.step(3)
    (other,) = keys.add(B, new=3)
    keys.step()
    gave_way = [one for one in many if one.preempted]
    assert len(gave_way) == 1
    drawn = gave_way[0].generated

    keys.steps_until(lambda: other.state is State.FINISHED)
    keys.engine.finish(many[0])
    keys.live.remove(many[0])
    keys.step()

    assert gave_way[0].generated == drawn + 1
    assert sum(one.state is State.RUNNING for one in many) == 7


def test_a_key_at_its_bound_preempts_its_own_for_an_urgent_request() -> None:
    keys = Keys(seats=8, budget=512)
    keys.add(B, new=900)
    keys.add(A, 20, priority=5)
    keys.step(2)
    assert keys.running(A) == 7

    (urgent,) = keys.add(A, priority=1)
    keys.step()

    assert urgent.generated == 1
    assert keys.running(A) == 7


def test_waiting_does_not_put_a_keys_many_requests_before_a_newcomers() -> None:
    """Each of the many has waited for minutes, and so improved by all levels."""
    keys = Keys(seats=8, budget=512)
    keys.add(A, 100)
    keys.add(B, 100)
    keys.step(10)
    keys.now += 300.0
    keys.step(3)

    (victim,) = keys.add(C)
    keys.step()

    assert victim.generated == 1


def test_requests_wait_at_most_for_ageing_behind_a_stream_of_urgent_ones_of_others() -> None:
    keys = Keys(seats=2, budget=64)
    keys.add(A, 3, priority=1, new=20)
    (patient,) = keys.add(B, priority=5, new=10)
    (other,) = keys.add(C, priority=5, new=10)

    for _ in range(2000):
        if patient.state is other.state is State.FINISHED:
            break
        if sum(one.holder == A for one in keys.live) < 4:
            keys.add(A, priority=1, new=20)
        keys.step()

    assert patient.state is other.state is State.FINISHED
    assert keys.now < 30.0


@pytest.mark.parametrize("stream", [False, True])
def test_a_beam_search_of_a_key_at_its_bound_goes_on(stream: bool) -> None:
    """Its beams wait for each other, so they need their places together."""
    keys = Keys(seats=16, budget=64)
    keys.add(B, new=10_000)
    (lead,) = keys.add(A, new=10_000)
    keys.step(2)
    beams = [lead]
    for id in range(-1, -15, -1):
        child = twin(lead, id)
        child.tokens[-1] = 9000 - id
        keys.engine.fork(lead, child)
        beams.append(child)
    keys.live += beams[1:]

    for _ in range(10):
        if stream:
            keys.add(C, new=2)
        # A beam that has its token waits until all have theirs.
        missing = {one.id for one in beams}
        for _ in range(20):
            step = keys.step_with(beams)
            missing -= {chunk.sequence.id for chunk in step.chunks}
            if not missing:
                break
        assert not missing
        for one in beams:
            one.tokens.append(8)


class Arrivals:
    """Random sequences of random keys and sizes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        self.keys = Keys(
            pages=pick((30, 60, 300)),
            budget=pick((1, 7, 64)),
            seats=pick((1, 2, 5, 16)),
            cache=self.random.random() < 0.7,
        )
        self.holders = [
            Holder(key, team)
            for key, team in (("a", ""), ("b", ""), ("c", "t"), ("d", "t"), ("", ""))
        ][: self.random.randint(2, 5)]

    def add(self) -> None:
        longest = self.keys.engine.longest()
        length = self.random.choice((1, 5, 20, longest - 12))
        self.keys.add(
            self.random.choice(self.holders),
            self.random.choice((1, 1, 8)),
            length=self.random.randint(1, length),
            new=self.random.randint(1, 12),
            priority=self.random.randint(1, 5),
        )


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(0, 2**32))
def test_every_request_of_every_key_finishes(seed: int) -> None:
    arrivals = Arrivals(seed)
    keys = arrivals.keys
    for _ in range(60):
        if len(keys.live) < 40 and arrivals.random.random() < 0.5:
            arrivals.add()
        if keys.live:
            keys.step()
            keys.now += arrivals.random.random()
        if keys.live and arrivals.random.random() < 0.1:
            gone = arrivals.random.choice(keys.live)
            keys.engine.finish(gone)
            keys.live.remove(gone)

    keys.steps_until(lambda: not keys.live, most=30_000)

    blocks = keys.engine.blocks
    assert keys.engine.running == keys.engine.waiting == 0
    assert blocks.free == blocks.total


@given(
    st.integers(0, 600),
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 300), st.integers(1, 5)),
        unique_by=lambda one: one[0],
    ),
)
def test_tokens_are_divided_completely_and_nobody_gets_more_than_it_needs(
    budget: int, wants: list[tuple[str, int, int]]
) -> None:
    teams = {"a": "t", "b": "t"}
    demands = [
        Demand(holder=Holder(key, teams.get(key, "")), tokens=tokens, priority=priority)
        for key, tokens, priority in wants
    ]

    quotas = split_tokens(budget, demands)

    needs = Counter({key: tokens for key, tokens, _ in wants})
    assert all(0 <= quotas[key] <= needs[key] for key in needs)
    assert sum(quotas.values()) == min(budget, needs.total())
