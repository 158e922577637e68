"""The loop and its thread: cancellation, failures, and no request left without an end."""

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import cast

import pytest
import torch

from strowger_gateway.local_engine.execution.engine_loop import Engine
from strowger_gateway.local_engine.execution.jobs import Delta, Job
from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.execution.model_runner import Runner, StepRows
from strowger_gateway.local_engine.execution.step_sampler import StepSampler
from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.sequence import new_sequence
from strowger_gateway.local_engine.scheduling.steps import Chunk, SchedulerLimits
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs, hosted, settled
from tests.local_engine.tiny import VOCABULARY

GREEDY = Sampling(temperature=0.0, max_tokens=200)
SOON_S = 30.0


def job(id: int, *, prompt: int = 5, new: int = 200, first: int = 7) -> Job:
    sequence = new_sequence(id=id, prompt=[first] + [7] * (prompt - 1), max_total=prompt + new)
    return Job(lane="a", sequence=sequence, params=settled(GREEDY))


class Listener:
    """Collects what an engine delivers; `on_delta` is called in the engine's thread."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self.ended = Event()
        self.cancel_at: dict[int, int] = {}
        self.engine: Engine | None = None

    def __call__(self, deltas: list[Delta]) -> None:
        self.deltas += deltas
        for delta in deltas:
            if self.cancel_at.get(delta.id) == len(self.of(delta.id)):
                assert self.engine is not None
                self.engine.cancel(delta.id)

    def of(self, id: int) -> list[Delta]:
        return [delta for delta in self.deltas if delta.id == id]


def run(lane: ModelLane, jobs: Sequence[Job], cancel_at: dict[int, int]) -> Listener:
    """Run until all jobs that were not cancelled have ended."""
    listener = Listener()
    listener.cancel_at = cancel_at
    idle = Event()

    def deliver(deltas: list[Delta]) -> None:
        listener(deltas)
        if all(any(d.outcome for d in listener.of(j.sequence.id)) for j in left):
            idle.set()

    left = [one for one in jobs if one.sequence.id not in cancel_at]
    listener.engine = engine = Engine({"a": lane}, deliver, listener.ended.set)
    for one in jobs:
        engine.submit(one)
    for id, count in cancel_at.items():
        if count == 0:
            engine.cancel(id)
    engine.start()
    assert idle.wait(SOON_S)
    engine.stop()
    return listener


@pytest.fixture(scope="module")
def lane(folder: Folder) -> ModelLane:
    return hosted(folder("llama"), prefix_cache=False).lane


def test_a_cancelled_answer_gets_no_further_step(lane: ModelLane) -> None:
    deliveries = run(lane, [job(1), job(2), job(3, new=20)], {1: 4, 2: 0})

    assert len(deliveries.of(1)) == 4
    assert deliveries.of(2) == []
    assert deliveries.of(3)[-1].outcome is not None
    assert lane.stats().blocks_free == lane.stats().blocks_total
    assert deliveries.ended.wait(SOON_S)


def test_cancelling_an_unknown_or_finished_answer_has_no_effect(lane: ModelLane) -> None:
    deliveries = run(lane, [job(1, new=3)], {99: 0})

    assert [delta.outcome for delta in deliveries.of(1)][-1] is not None


def test_a_stopped_engine_fails_new_jobs(lane: ModelLane) -> None:
    listener = Listener()
    engine = Engine({"a": lane}, listener)
    engine.start()
    engine.stop()

    engine.submit(job(1))

    assert [(d.outcome, d.reason) for d in listener.deltas] == [
        ("failed", "the engine has stopped")
    ]


POISON = 399


class FailingRunner:
    """A device that fails on one token."""

    def __init__(self, runner: Runner, error: Exception) -> None:
        self._runner = runner
        self._error = error

    def forward(self, chunks: Sequence[Chunk]) -> StepRows:
        for chunk in chunks:
            if POISON in chunk.sequence.tokens[chunk.start : chunk.start + chunk.count]:
                raise self._error
        return self._runner.forward(chunks)

    def copy(self, source: int, target: int) -> None:
        self._runner.copy(source, target)


def failing(folder: Path, error: Exception) -> ModelLane:
    runner = Runner(
        load(str(folder), device="cpu", dtype=torch.float32),
        device="cpu",
        kv_bytes=1 << 18,
        max_tokens=1000,
    )
    limits = SchedulerLimits(max_step_tokens=64, max_sequences=8, max_seq_len=200)
    pool = BlockPool(runner.blocks, runner.block_size)
    double = cast(Runner, FailingRunner(runner, error))
    return ModelLane(double, Scheduler(limits, pool), StepSampler(VOCABULARY, "cpu"))


def test_a_failed_step_fails_its_own_answers_and_others_continue(folder: Folder) -> None:
    lane = failing(folder("llama"), RuntimeError("a kernel failed"))
    runs = Runs(lane)
    runs.add([7] * 40 + [POISON] + [7] * 9, GREEDY)
    runs.step()

    runs.add([7] * 5, Sampling(temperature=0.0, max_tokens=4, ignore_eos=True))
    runs.finish()

    assert runs.outcomes == {1: "failed", 2: "length"}
    assert lane.stats().blocks_free == lane.stats().blocks_total


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_ends_the_thread_and_fails_all_answers(folder: Folder) -> None:
    lane = failing(folder("llama"), ZeroDivisionError("a bug"))
    listener = Listener()
    engine = Engine({"a": lane}, listener, listener.ended.set)
    engine.start()

    engine.submit(job(1, first=POISON))

    assert listener.ended.wait(SOON_S)
    engine.stop()
    assert not engine.alive
    assert [(d.outcome, d.reason) for d in listener.of(1)] == [("failed", "the engine has stopped")]


def test_a_deadline_ends_answers_between_two_steps(folder: Folder) -> None:
    runs = Runs(hosted(folder("llama")).lane)
    runs.add([7] * 5, GREEDY, deadline=2.0)
    runs.step(1.0)

    runs.step(2.0)

    assert len(runs.tokens(1)) == 1
    assert runs.outcomes == {1: "expired"}
    assert runs.lane.stats().running == 0
