"""Ten thousand random events on the scheduler and its pages, with a check after every one."""

import random
from collections import Counter
from itertools import count, product

import pytest

from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.sequence import Sequence, State, new_sequence, twin
from strowger_gateway.local_engine.scheduling.steps import Chunk, SchedulerLimits
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder

BLOCK = 4
EVENTS = 800
KINDS = ("add", "add", "cancel", "fork", "lower", "step", "step", "step", "step")


class Events:
    """A scheduler, its random events, and the invariants after each of them."""

    def __init__(self, seed: int, *, pages: int, seats: int, cache: bool) -> None:
        self.random = random.Random(seed)
        self.budget = self.random.choice((5, 17, 64))
        self.seats = seats
        self.keyed = seed % 2 == 1
        limits = SchedulerLimits(max_step_tokens=self.budget, max_sequences=seats, max_seq_len=1000)
        self.engine = Scheduler(limits, BlockPool(pages, BLOCK, prefix_cache=cache))
        self.live: dict[int, Sequence] = {}
        self.ids = count(1)
        self.now = 0.0
        self.seen: Counter[str] = Counter()

    def happen(self) -> None:
        self.now += self.random.random()
        match self.random.choice(KINDS):
            case "add" if len(self.live) < 40:
                self.add()
            case "cancel" if self.live and self.random.random() < 0.5:
                self.end(self.random.choice(list(self.live.values())), "cancelled")
            case "fork":
                self.fork()
            case "lower":
                self.engine.budget = self.random.randint(1, self.budget)
            case _:
                self.step()
        self.engine.check()

    def add(self) -> None:
        start = self.random.choice((0, 0, 1000))
        length = self.random.randint(1, 30)
        salt = self.random.choice((b"a", b"a", b"b", b"c") if self.keyed else (b"a", b"a", b"b"))
        one = new_sequence(
            id=next(self.ids),
            prompt=list(range(start, start + length)),
            max_total=length + self.random.randint(1, 12),
            priority=self.random.randint(1, 5),
            arrival=self.now,
            holder=Holder(salt.decode()) if self.keyed else ANONYMOUS,
            salt=salt,
        )
        if self.random.random() < 0.15:
            one.deadline = self.now + 10 * self.random.random()
        self.engine.add(one)
        self.live[one.id] = one

    def fork(self) -> None:
        """Fork an answer or beam from a running one."""
        going = [s for s in self.live.values() if s.state is State.RUNNING and s.generated]
        if not going:
            return
        parent = self.random.choice(going)
        child = twin(parent, next(self.ids))
        child.tokens[-1] = 10_000 + child.id
        self.engine.fork(parent, child)
        self.live[child.id] = child
        self.seen["forked" if child.state is State.RUNNING else "fork queued"] += 1

    def end(self, one: Sequence, how: str) -> None:
        self.engine.finish(self.live.pop(one.id))
        assert one.blocks == []
        self.seen[how] += 1

    def step(self) -> None:
        self.propose()
        before = {one.id: one.preempted for one in self.live.values()}
        step = self.engine.schedule(self.now)
        for one in step.expired:
            assert one.deadline <= self.now
            del self.live[one.id]
            self.seen["expired"] += 1
        assert sum(chunk.count for chunk in step.chunks) <= self.engine.budget
        assert self.engine.running <= self.seats
        assert step.chunks or step.expired or not self.live, "work is waiting and nothing runs"
        for chunk in step.chunks:
            self.compute(chunk)
        for one in list(self.live.values()):
            self.seen["preempted"] += one.preempted - before[one.id]
            if len(one.tokens) >= one.max_total:
                self.end(one, "finished")

    def propose(self) -> None:
        """Propose drafts, as an engine does before a step."""
        for one in self.live.values():
            room = one.max_total - len(one.tokens) - 1
            ready = one.state is State.RUNNING and one.pending == 1 and not one.drafts
            if ready and room > 0 and self.random.random() < 0.3:
                one.drafts.extend([5] * self.random.randint(1, min(3, room)))

    def compute(self, chunk: Chunk) -> None:
        """Act as the engine for a chunk: check its pages, accept some drafts."""
        one = chunk.sequence
        assert one.state is State.RUNNING
        assert chunk.start == one.computed
        assert len(one.blocks) * BLOCK >= chunk.start + chunk.count
        right = self.random.randint(1, chunk.rows) if chunk.rows else 0
        if right:
            one.tokens += [*one.drafts[: right - 1], self.random.randint(0, 3)]
            self.seen["drafts kept"] += right - 1
            self.seen["drafts refused"] += chunk.rows - right
        self.engine.advance(chunk, chunk.rows - right if chunk.rows else 0)
        one.drafts.clear()

    def drain(self) -> None:
        """Without new sequences, all sequences end."""
        self.engine.budget = self.budget
        for _ in range(20_000):
            if not self.live:
                return
            self.now += 0.1
            self.step()
            self.engine.check()
        pytest.fail("a sequence never ended")


def test_no_page_is_lost_or_owned_twice_in_ten_thousand_events() -> None:
    shapes = list(product((12, 40, 200), (1, 4, 16), (True, False)))
    seen: Counter[str] = Counter()
    for seed, (pages, seats, cache) in enumerate(shapes):
        events = Events(seed, pages=pages, seats=seats, cache=cache)
        for _ in range(EVENTS):
            events.happen()
        events.drain()
        blocks = events.engine.blocks
        assert events.engine.running == events.engine.waiting == 0
        assert blocks.free == blocks.total
        seen += events.seen
        seen["reused"] += events.engine.reused if cache else 0

    assert len(shapes) * EVENTS >= 10_000
    kinds = ("cancelled", "expired", "finished", "preempted", "forked", "fork queued", "reused")
    for kind in (*kinds, "drafts kept", "drafts refused"):
        assert seen[kind] > 50, f"{kind} was rarely tried: {seen}"


def busy(seats: int, *, priority: int, wait_s: float = 2.5) -> tuple[Scheduler, list[Sequence]]:
    """Return a scheduler at its sequence limit, all of whose answers have started."""
    limits = SchedulerLimits(
        max_step_tokens=64, max_sequences=seats, max_seq_len=1000, max_first_token_wait_s=wait_s
    )
    engine = Scheduler(limits, BlockPool(400, BLOCK))
    going = [
        new_sequence(id=id, prompt=[id] * 5, max_total=900, priority=priority)
        for id in range(1, seats + 1)
    ]
    for one in going:
        engine.add(one)
    advance(engine, 0.0)
    return engine, going


def advance(engine: Scheduler, now: float) -> None:
    for chunk in engine.schedule(now).chunks:
        if chunk.rows:
            chunk.sequence.tokens.append(3)
        engine.advance(chunk)
    engine.check()


def newcomer(id: int, *, priority: int, arrival: float, length: int = 5) -> Sequence:
    return new_sequence(
        id=id, prompt=[id] * length, max_total=900, priority=priority, arrival=arrival
    )


def test_a_sequence_that_waited_too_long_to_start_preempts_a_started_one() -> None:
    engine, (running,) = busy(1, priority=5)
    late = newcomer(9, priority=5, arrival=0.0)
    engine.add(late)

    advance(engine, 2.4)
    early = late.state
    advance(engine, 2.6)

    assert early is State.WAITING
    assert late.state is State.RUNNING
    assert running.state is State.WAITING


def test_preemption_by_waiting_happens_once_so_that_equals_do_not_alternate() -> None:
    engine, (first,) = busy(1, priority=5)
    late = newcomer(9, priority=5, arrival=0.0)
    engine.add(late)

    for tenth in range(600):
        advance(engine, tenth / 10)

    assert engine.preemptions == 1
    engine.finish(late)
    advance(engine, 60.0)
    assert first.state is State.RUNNING
    assert first.preempted == 1


def test_waiting_preempts_no_sequence_before_its_first_token() -> None:
    limits = SchedulerLimits(max_step_tokens=4, max_sequences=1, max_seq_len=1000)
    engine = Scheduler(limits, BlockPool(400, BLOCK))
    reading = newcomer(1, priority=5, arrival=0.0, length=40)
    engine.add(reading)
    advance(engine, 0.0)
    engine.add(newcomer(2, priority=5, arrival=0.0))

    advance(engine, 5.0)

    assert reading.state is State.RUNNING


def test_the_highest_priority_is_never_preempted_by_waiting() -> None:
    engine, (urgent,) = busy(1, priority=1)
    engine.add(newcomer(9, priority=5, arrival=0.0))

    advance(engine, 1000.0)

    assert urgent.state is State.RUNNING


@pytest.mark.parametrize("seats", [1, 4])
def test_under_a_stream_of_urgent_requests_the_least_urgent_still_finishes(seats: int) -> None:
    engine, going = busy(seats, priority=1)
    patient = newcomer(1000, priority=5, arrival=0.0)
    patient.max_total = 15
    engine.add(patient)
    ids = count(2000)
    now = 0.0
    while len(patient.tokens) < patient.max_total and now < 100.0:
        now += 0.1
        for one in list(going):
            if one.generated >= 20:
                going.remove(one)
                engine.finish(one)
        while len(going) < 3 * seats:
            going.append(newcomer(next(ids), priority=1, arrival=now))
            engine.add(going[-1])
        advance(engine, now)

    assert len(patient.tokens) == patient.max_total
    assert now < 30.0
