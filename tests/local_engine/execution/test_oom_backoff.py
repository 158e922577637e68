"""A step that does not fit the device runs in parts; only an answer that fits no part fails."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
import torch

from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.execution.model_runner import Runner, StepRows
from strowger_gateway.local_engine.execution.oom_backoff import (
    MAX_FAILED_STEPS,
    STEPS_BEFORE_GROWTH,
    BrokenDevice,
    Computed,
    OomBackoff,
    Refused,
)
from strowger_gateway.local_engine.execution.step_sampler import StepSampler
from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.sequence import new_sequence
from strowger_gateway.local_engine.scheduling.steps import Chunk, SchedulerLimits
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs
from tests.local_engine.tiny import VOCABULARY

GREEDY = Sampling(temperature=0.0, max_tokens=8, ignore_eos=True)
SAMPLED = Sampling(temperature=1.0, seed=3, max_tokens=8, ignore_eos=True)
PROMPTS = [[place + 5 * number for place in range(20 + number)] for number in range(6)]


class SmallRunner:
    """A device with memory for `room` tokens per step."""

    def __init__(self, runner: Runner, room: int) -> None:
        self._runner = runner
        self.room = room
        self.refused = 0
        self.copy = runner.copy

    def forward(self, chunks: Sequence[Chunk]) -> StepRows:
        if sum(chunk.count for chunk in chunks) > self.room:
            self.refused += 1
            raise torch.OutOfMemoryError("out of memory: tried to allocate 2 GiB")
        return self._runner.forward(chunks)


def small(folder: Path, room: int) -> tuple[ModelLane, SmallRunner]:
    runner = Runner(
        load(str(folder), device="cpu", dtype=torch.float32),
        device="cpu",
        kv_bytes=1 << 18,
        max_tokens=1000,
    )
    limits = SchedulerLimits(max_step_tokens=64, max_sequences=8, max_seq_len=200)
    double = SmallRunner(runner, room)
    scheduler = Scheduler(limits, BlockPool(runner.blocks, runner.block_size))
    return ModelLane(cast(Runner, double), scheduler, StepSampler(VOCABULARY, "cpu")), double


def answers(lane: ModelLane) -> list[list[int]]:
    runs = Runs(lane)
    for number, prompt in enumerate(PROMPTS):
        runs.add(prompt, (GREEDY, SAMPLED)[number % 2], priority=1 + number % 5)
    tokens = runs.finish()
    assert set(runs.outcomes.values()) == {"length"}
    return tokens


@pytest.mark.parametrize("room", [1, 3, 17])
def test_a_small_device_gives_the_same_answers_as_a_large_one(folder: Folder, room: int) -> None:
    large, _ = small(folder("llama"), 10_000)
    lane, device = small(folder("llama"), room)

    assert answers(lane) == answers(large)
    assert device.refused > 0
    assert lane.stats().blocks_free == lane.stats().blocks_total


def test_steps_that_are_too_large_become_rare(folder: Folder) -> None:
    lane, device = small(folder("llama"), 20)

    answers(lane)
    first = device.refused
    answers(lane)

    assert device.refused - first <= first
    assert device.refused < lane.stats().steps / 4


def test_if_not_even_one_token_fits_the_answer_fails_with_the_reason(folder: Folder) -> None:
    lane, device = small(folder("llama"), 0)
    runs = Runs(lane)
    runs.add(PROMPTS[0], GREEDY)

    runs.finish()
    device.room = 100
    runs.add(PROMPTS[1], GREEDY)
    runs.finish()

    assert runs.outcomes == {1: "failed", 2: "length"}
    assert "out of memory" in runs.reasons[1]


def chunk(id: int, count: int, *, rows: int = 0) -> Chunk:
    sequence = new_sequence(id=id, prompt=[7] * 99, max_total=100, arrival=float(id))
    return Chunk(sequence=sequence, start=0, count=count, rows=rows)


def compute(chunks: tuple[Chunk, ...]) -> int:
    """A device that fails on sequence 3."""
    if any(one.sequence.id == 3 for one in chunks):
        raise RuntimeError("a kernel failed")
    return sum(one.count for one in chunks)


def test_one_failing_answer_does_not_affect_others() -> None:
    relief = OomBackoff(64)

    parts = list(relief.parts([chunk(id, 1, rows=1) for id in range(8)], compute))

    refused = [part for part in parts if isinstance(part, Refused)]
    done = [one.sequence.id for p in parts if isinstance(p, Computed) for one in p.chunks]
    assert [(part.chunk.sequence.id, part.reason) for part in refused] == [(3, "a kernel failed")]
    assert sorted(done) == [0, 1, 2, 4, 5, 6, 7]
    assert relief.budget == 64


def test_the_better_ranks_go_first() -> None:
    def two_at_most(chunks: tuple[Chunk, ...]) -> int:
        if len(chunks) > 2:
            raise MemoryError
        return len(chunks)

    parts = list(OomBackoff(64).parts([chunk(id, 1, rows=1) for id in (4, 2, 3, 1)], two_at_most))

    order = [one.sequence.id for p in parts if isinstance(p, Computed) for one in p.chunks]
    assert order == [1, 2, 3, 4]


def test_drafts_are_never_cut_from_the_token_that_they_follow() -> None:
    parts = list(OomBackoff(64).parts([chunk(3, 4, rows=4)], compute))

    assert [type(part) for part in parts] == [Refused]


def test_the_budget_grows_again_after_steps_without_failure() -> None:
    relief = OomBackoff(64)

    def ten_at_most(chunks: tuple[Chunk, ...]) -> int:
        if sum(one.count for one in chunks) > 10:
            raise RuntimeError("out of memory")
        return 0

    list(relief.parts([chunk(1, 64, rows=1)], ten_at_most))
    lowered = relief.budget
    for _ in range(STEPS_BEFORE_GROWTH):
        list(relief.parts([chunk(1, lowered, rows=1)], ten_at_most))

    assert lowered == 8
    assert relief.budget == 16


def test_a_device_that_computes_nothing_any_more_ends_the_engine() -> None:
    relief = OomBackoff(64)
    for _ in range(MAX_FAILED_STEPS - 1):
        list(relief.parts([chunk(3, 2, rows=1)], compute))

    with pytest.raises(BrokenDevice, match="consecutive steps"):
        list(relief.parts([chunk(3, 2, rows=1)], compute))
