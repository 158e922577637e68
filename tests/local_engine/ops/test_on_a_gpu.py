"""The engine on a real NVIDIA GPU in 16 bits; skipped where torch sees none.

The rest of the engine's tests run there with `make test-device DEVICE=cuda`.
"""

import random
from pathlib import Path

import pytest
import torch

from strowger_gateway.local_engine.config import EngineConfig, ModelConfig
from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.execution.model_runner import Runner
from strowger_gateway.local_engine.execution.step_sampler import StepSampler
from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.ops.cuda_offers import decode_pairs, triton_attention
from strowger_gateway.local_engine.ops.kernel_selection import select_kernels
from strowger_gateway.local_engine.ops.self_test import Shape, problem_of
from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.steps import SchedulerLimits
from strowger_gateway.local_engine.server.model_host import host
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs
from tests.local_engine.tiny import VOCABULARY

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")

SHAPE = Shape(heads=32, kv_heads=8, width=128, hidden=4096)
GREEDY = Sampling(temperature=0.0, max_tokens=24, ignore_eos=True)
SEEDED = Sampling(temperature=0.9, top_p=0.95, seed=5, max_tokens=24, ignore_eos=True)


def prompts(count: int) -> list[list[int]]:
    source = random.Random(9)
    return [[source.randrange(5, VOCABULARY) for _ in range(3 + 5 * i % 60)] for i in range(count)]


def on_gpu(folder: Path, *, captured: bool) -> tuple[ModelLane, Runner]:
    """A lane in bfloat16 with the device's kernels, with or without captured steps."""
    weights = load(str(folder), device="cuda", dtype=torch.bfloat16)
    selection = select_kernels("cuda", torch.bfloat16, weights.shapes)
    runner = Runner(
        weights,
        device="cuda",
        kv_bytes=1 << 24,
        max_tokens=1 << 16,
        kernels=selection.kernels,
        capture=selection.capture if captured else None,
    )
    limits = SchedulerLimits(max_step_tokens=64, max_sequences=40, max_seq_len=200)
    scheduler = Scheduler(limits, BlockPool(runner.blocks, runner.block_size))
    return ModelLane(runner, scheduler, StepSampler(VOCABULARY, "cuda")), runner


def answers(
    lane: ModelLane, sampling: Sampling, count: int, given: list[list[int]] | None = None
) -> list[list[int]]:
    runs = Runs(lane)
    for prompt in given or prompts(count):
        runs.add(prompt, sampling)
    return runs.finish()


def test_attention_over_page_tables_and_torchs_flash_attention_pass_their_trials() -> None:
    selection = select_kernels("cuda", torch.bfloat16, (SHAPE,), thorough=True)

    assert [trial.role for trial in selection.trials].count("attention") == 2
    assert {trial.problem for trial in selection.trials} == {""}
    assert selection.capture is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "width"),
    [(8, 8, 64), (16, 8, 128), (14, 2, 64), (32, 8, 80), (20, 1, 96), (8, 4, 256)],
)
def test_attention_over_page_tables_agrees_with_torch(
    heads: int, kv_heads: int, width: int, dtype: torch.dtype
) -> None:
    shape = Shape(heads=heads, kv_heads=kv_heads, width=width, hidden=heads * width)

    assert problem_of(lambda: decode_pairs(triton_attention(), shape, dtype, "cuda")) == ""


def test_scattered_answers_are_captured(folder: Folder) -> None:
    """Answers that share a beginning have pages apart; they have the tokens of uncaptured ones."""
    beginning = list(range(5, 5 + 48))
    given = [beginning + prompt for prompt in prompts(9)]
    plain, _ = on_gpu(folder("llama"), captured=False)
    lane, runner = on_gpu(folder("llama"), captured=True)

    for _ in range(2):
        expected = answers(plain, GREEDY, 9, given)
        found = answers(lane, GREEDY, 9, given)

        begins = [mine[:2] == theirs[:2] for mine, theirs in zip(found, expected, strict=True)]
        assert sum(begins) >= 8
    assert runner.graphs is not None
    assert runner.graphs.problem == ""
    assert 16 in runner.graphs.sizes


@pytest.mark.parametrize("family", ["llama", "qwen3", "mistral", "granite"])
@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("count", [1, 3, 33])
def test_captured_steps_give_the_tokens_of_uncaptured_ones(
    family: str, sampling: Sampling, count: int, folder: Folder
) -> None:
    """Batches are padded to a captured size, so single tokens may differ by rounding."""
    plain, _ = on_gpu(folder(family), captured=False)
    lane, runner = on_gpu(folder(family), captured=True)

    expected = answers(plain, sampling, count)
    first = answers(lane, sampling, count)
    again = answers(lane, sampling, count)

    assert runner.graphs is not None
    assert runner.graphs.problem == ""
    assert runner.graphs.sizes
    begins = [mine[:2] == theirs[:2] for mine, theirs in zip(first, expected, strict=True)]
    assert sum(begins) >= 0.9 * count
    assert [one[:2] for one in again] == [one[:2] for one in first]


def test_an_engine_chooses_the_gpu_and_16_bits_by_itself(folder: Folder) -> None:
    reported: list[str] = []
    settings = EngineConfig(
        models=(ModelConfig(name="tiny", path=str(folder("llama"))),), kv_cache=1 << 24
    )

    host(settings, reported.append)

    assert "device cuda, bfloat16" in reported
    assert any(line.startswith("tiny: kernels: paged attention in Triton, ") for line in reported)
