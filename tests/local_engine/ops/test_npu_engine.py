"""The whole engine on the NPU's kernels and device, with the strict stand-in for both."""

from functools import partial
from pathlib import Path
from typing import cast

import pytest
import torch
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.execution.model_runner import Runner
from strowger_gateway.local_engine.execution.step_sampler import StepSampler
from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.ops.kernel_selection import KernelSelection, select_npu_kernels
from strowger_gateway.local_engine.ops.kernels import TORCH
from strowger_gateway.local_engine.ops.npu.operators import TorchNPU
from strowger_gateway.local_engine.ops.npu.paged_cache import PAGE
from strowger_gateway.local_engine.ops.npu.sampling import SamplingNPU
from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.steps import SchedulerLimits
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs
from tests.local_engine.execution.test_equality import COUNT, GREEDY, prompts
from tests.local_engine.stand_ins import npu_device
from tests.local_engine.stand_ins.npu_attention import fused_attention_v2
from tests.local_engine.stand_ins.npu_stand_in import FUNCTIONS, StandIn, torch_npu
from tests.local_engine.tiny import save_model

SOC = "Ascend910B3"
LAYER = ("npu_rms_norm", "npu_add_rms_norm", "npu_rotary_mul", "npu_swiglu")
ATTENTION = ("npu_fused_infer_attention_score", "npu_fused_infer_attention_score_v2")
TIE = 0.05
"""Float16 may choose either of two logits that are closer than this."""


def npu_lane(
    folder: Path, stand_in: StandIn, *, step: int = 512, dtype: torch.dtype = torch.float16
) -> tuple[ModelLane, Runner, KernelSelection]:
    npu_device.start()
    loaded = load(str(folder), device="npu", dtype=dtype)
    settled = select_npu_kernels(
        cast(TorchNPU, stand_in),
        cast(SamplingNPU, stand_in),
        SOC,
        dtype,
        loaded.shapes,
        device="npu",
    )
    runner = Runner(
        loaded, device="npu", kv_bytes=1 << 23, max_tokens=16 * PAGE, kernels=settled.kernels
    )
    limits = SchedulerLimits(max_step_tokens=step, max_sequences=8, max_seq_len=256)
    pool = BlockPool(runner.blocks, runner.block_size, prefix_cache=True)
    sampler = StepSampler(loaded.vocab, "npu", settled.operator)
    stand_in.calls.update(dict.fromkeys(stand_in.calls, 0))
    return ModelLane(runner, Scheduler(limits, pool), sampler), runner, settled


def answers(
    lane: ModelLane, inputs: list[list[int]], sampling: Sampling = GREEDY
) -> list[list[int]]:
    runs = Runs(lane)
    for prompt in inputs:
        runs.add(prompt, sampling)
    return runs.finish()


def assert_greedy(
    folder: Path,
    inputs: list[list[int]],
    given: list[list[int]],
    count: int = COUNT,
    tie: float = TIE,
) -> None:
    """Check that each token is transformers' choice after the preceding tokens, except for ties."""
    oracle = cast(
        PreTrainedModel,
        AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager"),  # pyright: ignore[reportUnknownMemberType]  # transformers
    ).eval()
    for prompt, answer in zip(inputs, given, strict=True):
        assert len(answer) == count
        with torch.inference_mode():
            logits = oracle(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
        chosen = logits.gather(1, torch.tensor(answer).unsqueeze(1)).squeeze(1)
        assert bool((chosen >= logits.amax(-1) - tie).all())


def called(stand_in: StandIn) -> set[str]:
    return {name for name, count in stand_in.calls.items() if count}


LONG = [*prompts(), [5 + i % 300 for i in range(140)]]
"""The last prompt's keys need a second page."""


@pytest.mark.parametrize("family", ["llama", "qwen3", "mistral"])
def test_greedy_tokens_are_transformers_own(family: str, folder: Folder) -> None:
    stand_in = torch_npu()
    lane, runner, settled = npu_lane(folder(family), stand_in)

    given = answers(lane, LONG)

    assert_greedy(folder(family), LONG, given)
    assert runner.fused
    assert settled.kernels.name == runner.kernels.name == "npu"
    assert called(stand_in) >= {*LAYER, "npu_fused_infer_attention_score_v2"}
    layers = stand_in.calls["npu_swiglu"]
    assert stand_in.calls["npu_fused_infer_attention_score_v2"] == layers


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize(
    ("family", "dtype"),
    [
        ("mistral", torch.float16),
        pytest.param("gpt_oss", torch.bfloat16, marks=pytest.mark.nightly),
    ],
)
def test_windows_and_sinks_are_the_attention_kernels_whatever_pre_tokens_counts(
    family: str, dtype: torch.dtype, inclusive: bool, folder: Folder
) -> None:
    """The documents do not say whether pre_tokens counts a query's own token.

    gpt-oss's random experts are too close for bfloat16: its logits are compared at load.
    """
    stand_in = torch_npu(without=("npu_fused_infer_attention_score",))
    kernel = getattr(stand_in, ATTENTION[1])

    def counted(*args: object, **keywords: object) -> object:
        if keywords["sparse_mode"] == 4 and not inclusive:
            before = cast(int, keywords["pre_tokens"])
            keywords["pre_tokens"] = before - 1
        return kernel(*args, **keywords)

    setattr(stand_in, ATTENTION[1], counted)
    lane, _, settled = npu_lane(folder(family), stand_in, dtype=dtype)

    given = answers(lane, prompts())

    if dtype == torch.float16:
        assert_greedy(folder(family), prompts(), given)
    used = [one.kernel for one in settled.trials if one.role == "attention" and not one.problem]
    assert used[0].endswith("W-1" if inclusive else "pre_tokens=W")
    assert stand_in.calls[ATTENTION[1]] == 2 * COUNT  # each of two layers in every step


@pytest.mark.parametrize("widths", [(64, 128), (128,)])
def test_heads_of_64_are_not_padded_where_the_kernel_takes_them(
    widths: tuple[int, ...], tmp_path: Path
) -> None:
    folder = save_model(tmp_path, head_dim=64)
    taking = partial(fused_attention_v2, widths=widths)
    stand_in = StandIn({**FUNCTIONS, ATTENTION[1]: taking})

    lane, runner, settled = npu_lane(folder, stand_in)

    assert_greedy(folder, prompts(), answers(lane, prompts()))
    used = [one.kernel for one in settled.trials if one.role == "attention" and not one.problem]
    assert used[0].endswith(", heads of 64") == (64 in widths)
    heads = 2 * 2 * 2  # keys and values of two layers with two heads each
    assert runner.cache_bytes == runner.blocks * PAGE * heads * min(widths) * 2


def test_a_kernel_that_ignores_the_window_of_a_single_query_computes_no_windows(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """The documents of torch-npu 2.13.0 say so of sparse_mode: torch computes these layers then."""
    stand_in = torch_npu()
    kernel = getattr(stand_in, ATTENTION[1])

    def ignoring(query: torch.Tensor, *args: object, **keywords: object) -> object:
        ends = cast("list[int]", keywords["actual_seq_qlen"])
        if ends == list(range(1, len(ends) + 1)):
            keywords |= {"sparse_mode": 3, "pre_tokens": 2**31 - 1, "next_tokens": 2**31 - 1}
        return kernel(query, *args, **keywords)

    setattr(stand_in, ATTENTION[1], ignoring)
    lane, _, _ = npu_lane(folder("mistral"), stand_in)

    assert_greedy(folder("mistral"), LONG, answers(lane, LONG))
    assert stand_in.calls[ATTENTION[1]] == 0 or caplog.messages == []


@pytest.mark.parametrize(
    "family",
    [
        pytest.param("gemma3_text", marks=pytest.mark.nightly),
        *("gpt_oss", "llama4_text", "gemma4_text"),
    ],
)
def test_models_with_their_own_code_attend_over_the_same_pages(family: str, folder: Folder) -> None:
    stand_in = torch_npu()
    lane, runner, _ = npu_lane(folder(family), stand_in)

    given = answers(lane, prompts())

    assert_greedy(folder(family), prompts(), given)
    assert not runner.fused
    assert runner.block_size == PAGE


@pytest.mark.parametrize(
    "without",
    [
        (ATTENTION[1],),
        pytest.param(("npu_scatter_pa_kv_cache",), marks=pytest.mark.nightly),
        pytest.param(ATTENTION, marks=pytest.mark.nightly),
        LAYER,
        (*ATTENTION, *LAYER, "npu_scatter_pa_kv_cache", "npu_top_k_top_p_sample"),
    ],
    ids=["v1", "no scatter", "no attention", "no layer kernels", "nothing"],
)
def test_tokens_do_not_depend_on_the_available_kernels(
    without: tuple[str, ...], folder: Folder
) -> None:
    stand_in = torch_npu(without=without)
    lane, runner, _ = npu_lane(folder("llama"), stand_in, step=50)

    given = answers(lane, LONG)

    assert_greedy(folder("llama"), LONG, given)
    assert runner.fused
    assert called(stand_in).isdisjoint(without)


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_answers_without_a_seed_are_drawn_by_the_operator_and_seeded_ones_replay(
    version: str, folder: Folder
) -> None:
    stand_in = torch_npu(sample="V1" if version == "V1" else "V2")
    lane, _, _ = npu_lane(folder("qwen2"), stand_in)
    free = Sampling(temperature=0.9, top_k=20, top_p=0.9, max_tokens=6, ignore_eos=True)
    seeded = Sampling(temperature=0.9, top_k=20, seed=4, max_tokens=6, ignore_eos=True)

    first = answers(lane, prompts(3), seeded)
    undrawn = stand_in.calls["npu_top_k_top_p_sample"]
    answers(lane, prompts(3), free)
    again = answers(lane, prompts(3), seeded)

    assert undrawn == 0
    assert stand_in.calls["npu_top_k_top_p_sample"] > 0
    assert first == again


def test_a_kernel_that_changes_the_logits_is_dropped_and_the_others_stay(
    folder: Folder,
) -> None:
    """Kernels may pass their self-test and still be wrong in combination."""
    npu_device.start()
    stand_in = torch_npu()
    loaded = load(str(folder("llama")), device="npu", dtype=torch.float16)
    vendor = cast(TorchNPU, stand_in)
    settled = select_npu_kernels(
        vendor, cast(SamplingNPU, stand_in), SOC, torch.float16, loaded.shapes, device="npu"
    )

    def zeros(query: torch.Tensor, *_: object, **__: object) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros_like(query), query

    setattr(stand_in, ATTENTION[1], zeros)
    runner = Runner(
        loaded, device="npu", kv_bytes=1 << 23, max_tokens=16 * PAGE, kernels=settled.kernels
    )

    assert runner.kernels.cache is TORCH.cache
    assert runner.kernels.norm is settled.kernels.norm
    assert runner.kernels.rotary is settled.kernels.rotary
    assert runner.block_size == PAGE
