"""Captured decoding steps, replayed by calling again: buffers, padding and stale lengths."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from local_engine.execution.model_lane import ModelLane
from local_engine.execution.model_runner import Runner
from local_engine.execution.step_sampler import StepSampler
from local_engine.loading.checkpoint import load
from local_engine.ops.cuda import cuda_offers
from local_engine.ops.cuda_graphs import Capture, bucket_of, call_again
from local_engine.ops.self_test import choose_kernels, run_trials
from local_engine.scheduling.block_pool import BlockPool
from local_engine.scheduling.scheduler import Scheduler, SchedulerLimits
from schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs
from tests.local_engine.execution.test_equality import prompts
from tests.local_engine.ops.test_cuda import flash


def lane(folder: Path, capture: Capture | None) -> tuple[ModelLane, Runner]:
    loaded = load(str(folder), device="cpu", dtype=torch.float16)
    offers = cuda_offers(loaded.shape, torch.float16, device="cpu", flash=flash)
    kernels = choose_kernels("cuda", offers, run_trials(offers))
    runner = Runner(
        loaded,
        device="cpu",
        kv_bytes=1 << 20,
        max_tokens=2048,
        kernels=kernels,
        capture=capture,
    )
    limits = SchedulerLimits(max_step_tokens=256, max_sequences=8, max_seq_len=200)
    pool = BlockPool(runner.blocks, runner.block_size, prefix_cache=False)
    return ModelLane(runner, Scheduler(limits, pool), StepSampler(loaded.vocab, "cpu")), runner


def answers(chosen: ModelLane) -> list[list[int]]:
    """Answers of different lengths, so that the batch shrinks from step to step."""
    runs = Runs(chosen)
    for number, prompt in enumerate(prompts()):
        count = 3 + 4 * ((number * 3) % 5)
        runs.add(prompt, Sampling(temperature=0.0, max_tokens=count, ignore_eos=True))
    return runs.finish()


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_captured_steps_give_the_tokens_of_plain_ones(family: str, folder: Folder) -> None:
    plain, _ = lane(folder(family), None)
    captured, runner = lane(folder(family), call_again)
    expected = [answers(plain), answers(plain)]

    given = [answers(captured), answers(captured)]

    assert given == expected
    assert runner.graphs is not None
    assert runner.graphs.problem == ""
    assert runner.graphs.sizes == (1, 2, 4, 8)


def frozen(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Replay the first run's result regardless of the buffers: a broken capture."""
    step()
    return lambda: torch.zeros(8, 400, dtype=torch.float16)


def refused(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    raise RuntimeError("operation not permitted when stream is capturing")


@pytest.mark.parametrize(
    ("broken", "reason"), [(frozen, "differs from the same step"), (refused, "not permitted")]
)
def test_a_capture_that_fails_costs_speed_and_no_token(
    broken: Capture, reason: str, folder: Folder
) -> None:
    plain, _ = lane(folder("llama"), None)
    chosen, runner = lane(folder("llama"), broken)

    given = answers(chosen)

    assert given == answers(plain)
    assert runner.graphs is not None
    assert reason in runner.graphs.problem
    assert runner.graphs.sizes == ()


@pytest.mark.parametrize(
    ("count", "size"), [(1, 1), (2, 2), (3, 4), (5, 8), (16, 16), (17, 32), (33, 48), (256, 256)]
)
def test_batches_are_rounded_up(count: int, size: int) -> None:
    assert bucket_of(count) == size
