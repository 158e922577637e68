"""Captured decoding steps, replayed by calling again: buffers, padding and stale lengths."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.execution.model_runner import Runner
from strowger_gateway.local_engine.execution.step_sampler import StepSampler
from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.ops.cuda import Paged
from strowger_gateway.local_engine.ops.cuda_offers import cuda_offers
from strowger_gateway.local_engine.ops.decode_graphs import Capture, bucket_of, call_again
from strowger_gateway.local_engine.ops.kernels import PAGE, Finish, NormParams
from strowger_gateway.local_engine.ops.self_test import choose_kernels, run_trials
from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.steps import SchedulerLimits
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs
from tests.local_engine.execution.test_equality import prompts
from tests.local_engine.ops.test_cuda import finish, flash, no_triton, paged


def lane(
    folder: Path,
    capture: Capture | None,
    made: Callable[[], Paged] = no_triton,
    *,
    prefix_cache: bool = False,
    finish: Finish | None = None,
) -> tuple[ModelLane, Runner]:
    loaded = load(str(folder), device="cpu", dtype=torch.float16)
    offers = cuda_offers(loaded.shapes[0], torch.float16, device="cpu", flash=flash, paged=made)
    kernels = replace(choose_kernels("cuda", offers, run_trials(offers)), finish=finish)
    runner = Runner(
        loaded,
        device="cpu",
        kv_bytes=1 << 20,
        max_tokens=2048,
        kernels=kernels,
        capture=capture,
    )
    limits = SchedulerLimits(max_step_tokens=256, max_sequences=8, max_seq_len=200)
    pool = BlockPool(runner.blocks, runner.block_size, prefix_cache=prefix_cache)
    return ModelLane(runner, Scheduler(limits, pool), StepSampler(loaded.vocab, "cpu")), runner


def answers(chosen: ModelLane, given: list[list[int]] | None = None) -> list[list[int]]:
    """Answers of different lengths, so that the batch shrinks from step to step."""
    runs = Runs(chosen)
    for number, prompt in enumerate(given or prompts()):
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


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_scattered_answers_are_captured_where_attention_reads_page_tables(
    family: str, folder: Folder
) -> None:
    """Answers that share a beginning have pages apart, and mistral's window is shorter."""
    beginning = list(range(5, 5 + 3 * PAGE))
    given = [[*beginning, *prompt] for prompt in prompts()]
    replays: list[int] = []

    def counted(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        def replay() -> Tensor:
            replays[-1] += 1
            return step()

        return replay

    def run(capture: Capture | None, made: Callable[[], Paged]) -> list[list[int]]:
        replays.append(0)
        chosen, runner = lane(folder(family), capture, made, prefix_cache=True)
        found = answers(chosen, given) + answers(chosen, given)
        assert runner.graphs is None or runner.graphs.problem == ""
        return found

    expected = run(None, no_triton)

    assert run(counted, no_triton) == expected
    assert run(counted, lambda: paged) == expected
    _, contiguous, every = replays
    assert contiguous < every


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_keys_that_one_kernel_writes_give_the_same_tokens(family: str, folder: Folder) -> None:
    """qwen3 normalises its heads, llama does not."""
    plain, _ = lane(folder(family), None)
    calls: list[int] = []

    def counted(
        mixed: Tensor,
        cos: Tensor,
        sin: Tensor,
        norms: tuple[NormParams, NormParams] | None,
        slots: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor:
        assert (norms is None) == (family == "llama")
        calls.append(len(mixed))
        return finish(mixed, cos, sin, norms, slots, keys, values)

    chosen, _ = lane(folder(family), call_again, lambda: paged, finish=counted)

    assert answers(chosen) == answers(plain)
    assert calls


def frozen(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Replay the first run's result regardless of the buffers: a broken capture."""
    step()
    return lambda: torch.zeros(8, 400, dtype=torch.float16)


def refused(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    raise RuntimeError("operation not permitted when stream is capturing")


def refused_after_a_run(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The run has written keys and values of the wrong lengths."""
    step()
    return refused(step)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (frozen, "differs from the same step"),
        (refused, "not permitted"),
        (refused_after_a_run, "not permitted"),
    ],
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


def test_a_replay_that_is_refused_later_costs_speed_and_no_token(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    plain, _ = lane(folder("llama"), None)
    replays: list[int] = []

    def tiring(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        def replay() -> Tensor:
            replays.append(1)
            if len(replays) == 8:
                raise RuntimeError("error code is 161002: refused")
            return step()

        return replay

    chosen, runner = lane(folder("llama"), tiring)

    assert answers(chosen) == answers(plain)
    assert runner.graphs is not None
    assert "161002" in runner.graphs.problem
    assert [record.message for record in caplog.records if "captured" in record.message] == [
        "decoding steps are not captured as graphs, which is slower: "
        "RuntimeError: error code is 161002: refused"
    ]


@pytest.mark.parametrize(
    ("count", "size"), [(1, 1), (2, 2), (3, 4), (5, 8), (16, 16), (17, 32), (33, 48), (256, 256)]
)
def test_batches_are_rounded_up(count: int, size: int) -> None:
    assert bucket_of(count) == size
