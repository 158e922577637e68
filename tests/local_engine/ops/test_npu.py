"""The NPU's kernels with the strict stand-in: which are called, rejected and chosen."""

from collections.abc import Iterable
from typing import cast

import pytest
import torch
from torch import Tensor

from strowger_gateway.local_engine.ops.kernels import TORCH, norm
from strowger_gateway.local_engine.ops.npu.offers import npu_offers
from strowger_gateway.local_engine.ops.npu.operators import TorchNPU
from strowger_gateway.local_engine.ops.npu.paged_cache import PAGE
from strowger_gateway.local_engine.ops.self_test import (
    Offer,
    Shape,
    Trial,
    attention_pairs,
    choose_kernels,
    problem_of,
    run_trials,
)
from tests.examples import by_day
from tests.local_engine.stand_ins import npu_device
from tests.local_engine.stand_ins.npu_refusals import Value
from tests.local_engine.stand_ins.npu_stand_in import SCHEMAS, StandIn, bind, torch_npu

FUSED = "npu_fused_infer_attention_score"
SCATTER = "npu_scatter_pa_kv_cache"
SHAPES = [
    Shape(heads=4, kv_heads=2, width=8, hidden=32),
    Shape(heads=14, kv_heads=2, width=64, hidden=896),
    Shape(heads=4, kv_heads=4, width=96, hidden=384),
    Shape(heads=2, kv_heads=1, width=128, hidden=256),
]
SMALL = SHAPES[0]


def vendor(stand_in: StandIn) -> TorchNPU:
    return cast(TorchNPU, stand_in)


def offers(
    stand_in: StandIn, shape: Shape = SMALL, dtype: torch.dtype = torch.bfloat16
) -> tuple[Offer, ...]:
    npu_device.start()
    return npu_offers(vendor(stand_in), shape, dtype, device="npu")


def problems(trials: Iterable[Trial]) -> dict[str, str]:
    return {trial.kernel: trial.problem for trial in trials}


@pytest.mark.parametrize(
    "shape", by_day(SHAPES, SHAPES[1:3]), ids=lambda shape: f"width {shape.width}"
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_kernel_does_what_torch_does(shape: Shape, dtype: torch.dtype) -> None:
    stand_in = torch_npu()

    trials = run_trials(offers(stand_in, shape, dtype), thorough=True)

    trials = tuple(one for one in trials if "heads of 64" not in one.kernel)  # of newer CANN
    assert len(trials) == 9
    assert not any(problems(trials).values()), problems(trials)
    called = {name for name, count in stand_in.calls.items() if count}
    graphs = (".out", "_workspace")  # only of captured steps
    assert called == {n for n in SCHEMAS if "top_k" not in n and not n.endswith(graphs)}


CHOICES: list[tuple[tuple[str, ...], str]] = [
    ((), f"{FUSED}_v2 with {SCATTER}"),
    ((f"{FUSED}_v2",), f"{FUSED} with {SCATTER}"),
    ((SCATTER,), f"{FUSED}_v2"),
    ((f"{FUSED}_v2", SCATTER), FUSED),
    ((f"{FUSED}_v2", FUSED), "torch"),
]


@pytest.mark.parametrize(("without", "attention"), CHOICES)
def test_the_best_available_attention_is_used(without: tuple[str, ...], attention: str) -> None:
    found = offers(torch_npu(without=without))

    trials = run_trials(found)

    kernels = choose_kernels("npu", found, trials)
    used = [t.kernel for t in trials if t.role == "attention" and not t.problem]
    assert (used or ["torch"]) == [attention]
    assert kernels.page == (TORCH.page if attention == "torch" else PAGE)


@pytest.mark.parametrize(
    ("missing", "field"),
    [
        ("npu_rms_norm", "norm"),
        ("npu_add_rms_norm", "add_norm"),
        ("npu_rotary_mul", "rotary"),
        ("npu_swiglu", "swiglu"),
    ],
)
def test_a_missing_kernel_is_replaced_by_torchs_and_reported_with_the_reason(
    missing: str, field: str
) -> None:
    found = offers(torch_npu(without=(missing,)))

    trials = run_trials(found)

    kernels = choose_kernels("npu", found, trials)
    assert "AttributeError" in problems(trials)[missing]
    for name in ("norm", "add_norm", "rotary", "swiglu"):
        assert (getattr(kernels, name) is getattr(TORCH, name)) == (name == field)


def test_float32_models_keep_torchs_attention() -> None:
    found = offers(torch_npu(), dtype=torch.float32)

    trials = run_trials(found)

    refusal = problems(trials)[f"{FUSED}_v2 with {SCATTER}"]
    assert "query: float32 is not among bfloat16, float16" in refusal
    assert choose_kernels("npu", found, trials).cache is TORCH.cache


def test_a_cann_that_takes_no_pages_of_packed_tokens_keeps_torchs_attention() -> None:
    found = offers(torch_npu(old_cann=True))

    trials = run_trials(found, thorough=True)

    refusals = {name: why for name, why in problems(trials).items() if why}
    assert refusals.keys() == {one.kernel for one in found if one.role == "attention"}
    assert all("TND takes no page attention" in why for why in refusals.values())
    kernels = choose_kernels("npu", found, trials)
    assert kernels.cache is TORCH.cache
    assert kernels.norm is not TORCH.norm


class Crooked(StandIn):
    """A version whose kernels differ from the documents."""

    def npu_swiglu(self, x: Tensor, dim: int) -> Tensor:
        first, second = x.chunk(2, dim=dim)
        return torch.nn.functional.silu(second) * first

    def npu_rms_norm(self, x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        return norm(x, 1 + gamma, epsilon), x

    def npu_rotary_mul(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return x * cos + x.roll(1, -1) * sin

    def npu_add_rms_norm(
        self, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        return norm(x1 + x2, gamma, epsilon), x1, x1

    def npu_fused_infer_attention_score(
        self, query: Tensor, key: Tensor, value: Tensor, **keywords: Value
    ) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(query), query


def test_kernels_that_compute_different_numbers_are_not_used() -> None:
    found = offers(Crooked({}))

    trials = run_trials(found)

    assert all(problems(trials).values())
    assert "differs from torch by up to" in problems(trials)["npu_swiglu"]
    kernels = choose_kernels("npu", found, trials)
    assert kernels.name == "torch"
    assert kernels.cache is TORCH.cache


def test_heads_wider_than_the_kernel_takes_are_served_by_torch_over_the_same_pages() -> None:
    found = offers(torch_npu())
    kernels = choose_kernels("npu", found, run_trials(found))
    wide = Shape(heads=2, kv_heads=1, width=160, hidden=320)

    fault = problem_of(lambda: attention_pairs(kernels.cache, wide, PAGE, torch.float32, "npu"))

    assert fault == ""


def test_a_page_is_copied_whole_and_no_other() -> None:
    found = offers(torch_npu())
    cache = choose_kernels("npu", found, run_trials(found)).cache(3 * PAGE)
    keys, values = cache.of(0, torch.zeros(1, 2, 8), torch.zeros(1, 2, 8))
    keys.copy_(torch.randn(keys.shape))
    values.copy_(torch.randn(values.shape))
    before = keys.clone()

    cache.copy(0, 2 * PAGE, PAGE)

    assert torch.equal(keys[:, 2 * PAGE :], before[:, :PAGE])
    assert torch.equal(keys[:, : 2 * PAGE], before[:, : 2 * PAGE])
    assert cache.slot_bytes == 2 * 2 * 128 * 4


BAD_CALLS: list[tuple[str, tuple[Value, ...], dict[str, Value]]] = [
    ("npu_swiglu", (torch.zeros(2, 2),), {"axis": -1}),
    ("npu_swiglu", (torch.zeros(2, 2), 1, 2), {}),
    ("npu_rms_norm", (torch.zeros(2, 2),), {}),
    ("npu_rms_norm", (torch.zeros(2), torch.zeros(2), "1e-6"), {}),
    (FUSED, (torch.zeros(1),) * 3, {"actual_seq_lengths": torch.zeros(1)}),
    (FUSED, (torch.zeros(1),) * 3, {"softmax_scale": 1.0}),
    (FUSED + "_v2", (torch.zeros(1),) * 3, {"num_heads": 1}),
    ("npu_top_k_top_p_sample", (torch.zeros(1, 8),) * 3, {"top_k_guess": 1.5}),
]


@pytest.mark.parametrize(("name", "args", "keywords"), BAD_CALLS)
def test_the_stand_in_refuses_what_the_signature_does_not_have(
    name: str, args: tuple[Value, ...], keywords: dict[str, Value]
) -> None:
    with pytest.raises(TypeError, match=name):
        bind(name, args, keywords)


PAGES = torch.zeros(2, 128, 128, dtype=torch.bfloat16)
GOOD: dict[str, Value] = {
    "atten_mask": torch.ones(2048, 2048, dtype=torch.bool).triu(1),
    "actual_seq_lengths": [1],
    "actual_seq_lengths_kv": [1],
    "block_table": torch.zeros(1, 1, dtype=torch.int32),
    "num_heads": 1,
    "scale": 1.0,
    "input_layout": "TND",
    "num_key_value_heads": 1,
    "sparse_mode": 3,
    "block_size": 128,
}
REFUSED: list[tuple[str, Value]] = [
    ("atten_mask", torch.ones(8, 8, dtype=torch.bool).triu(1)),
    ("actual_seq_lengths", None),
    ("actual_seq_lengths", [2]),
    ("actual_seq_lengths_kv", None),
    ("actual_seq_lengths_kv", [129]),
    ("block_table", torch.zeros(1, 1, dtype=torch.int64)),
    ("block_table", torch.full((1, 1), 9, dtype=torch.int32)),
    ("input_layout", "BSH"),
    ("num_key_value_heads", 2),
    ("sparse_mode", 0),
    ("block_size", 16),
]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_the_stand_in_refuses_what_the_documents_rule_out(name: str, value: Value) -> None:
    query = torch.zeros(1, 1, 128, dtype=torch.bfloat16)
    fused = torch_npu().npu_fused_infer_attention_score
    fused(query, PAGES, PAGES, **GOOD)

    with pytest.raises(RuntimeError):
        fused(query, PAGES, PAGES, **{**GOOD, name: value})
