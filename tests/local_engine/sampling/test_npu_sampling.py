"""Which rows the NPU's sampling operator draws, and that it draws as torch does."""

# torch annotates manual_seed and tolist in part only:
# pyright: reportUnknownMemberType=false

from typing import cast

import pytest
import torch
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.ops.npu.sampling import (
    NPUOperator,
    NPUSampler,
    SamplingNPU,
    Version,
    has_operator,
    operator_takes,
    probe_operator,
)
from strowger_gateway.local_engine.sampling.batch_params import SamplingRows
from strowger_gateway.local_engine.sampling.sampler import probabilities, sample
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.top_k_top_p_operator import (
    top_k_top_p_sample,
    use_operator,
)
from tests.local_engine.stand_ins.npu_stand_in import StandIn, torch_npu

OPERATOR = "npu_top_k_top_p_sample"
V = 5000
PLAIN = RowParams(temperature=0.8)

SOCS = [
    ("Ascend910B3", True),
    ("Ascend910B4-1", True),
    ("Ascend910_9362", True),
    ("Ascend910_9391", True),
    ("Ascend950PR", True),
    ("Ascend310P3", False),
    ("Ascend310B4", False),
    ("Ascend310", False),
    ("Ascend910A", False),
    ("Ascend910B", False),
    ("Ascend910ProB", False),
    ("Ascend910PremiumA", False),
    ("Ascend910", False),
]
TAKEN: list[tuple[str, RowParams, bool, bool]] = [
    # what the row is, the row, by version 1, by version 2
    ("uncut", PLAIN, True, True),
    ("top-k", replace(PLAIN, top_k=50), True, True),
    ("top-k 1024", replace(PLAIN, top_k=1024), True, True),
    ("top-k 1025", replace(PLAIN, top_k=1025), False, False),
    ("top-k of all", replace(PLAIN, top_k=V), True, True),
    ("top-k and top-p", replace(PLAIN, top_k=50, top_p=0.9), True, True),
    ("top-p alone", replace(PLAIN, top_p=0.9), False, True),
    ("min-p", replace(PLAIN, top_k=50, min_p=0.1), False, False),
    ("typical-p", replace(PLAIN, typical_p=0.5), False, False),
    ("the client's seed", replace(PLAIN, top_k=50, seeded=True), False, False),
    ("a drawn seed", replace(PLAIN, top_k=50, seed=9), True, True),
    ("logprobs", replace(PLAIN, top_k=50, logprobs=0), False, False),
    ("greedy", RowParams(temperature=0.0), False, False),
    ("greedy by k", replace(PLAIN, top_k=1), False, False),
    ("greedy by p", replace(PLAIN, top_p=0.0), False, False),
]


def vendor(stand_in: StandIn) -> SamplingNPU:
    return cast(SamplingNPU, stand_in)


@pytest.mark.parametrize(("soc", "has"), SOCS)
def test_products_without_the_operator_are_known_by_name(soc: str, has: bool) -> None:
    assert has_operator(soc) == has


@pytest.mark.parametrize(
    ("row", "v1", "v2"), [case[1:] for case in TAKEN], ids=[c[0] for c in TAKEN]
)
def test_each_version_gets_the_rows_that_it_draws_right(row: RowParams, v1: bool, v2: bool) -> None:
    assert operator_takes(Version.V1, row, V) == v1
    assert operator_takes(Version.V2, row, V) == v2
    assert not operator_takes(Version.NONE, row, V)


def test_the_version_is_found_by_calling_it() -> None:
    second = probe_operator(vendor(torch_npu()), "Ascend910B3", "cpu")
    first = probe_operator(vendor(torch_npu(sample="V1")), "Ascend910B3", "cpu")
    none = probe_operator(vendor(torch_npu(without=(OPERATOR,))), "Ascend910B3", "cpu")
    product = probe_operator(vendor(torch_npu()), "Ascend310P3", "cpu")

    assert (second.version, second.problem) == (Version.V2, "")
    assert first.version is Version.V1
    assert "aclnnTopKTopPSampleV2: RuntimeError: aclnnStatus 161002" in first.problem
    assert none.version is Version.NONE
    assert "AttributeError" in none.problem
    assert (product.version, product.problem) == (
        Version.NONE,
        f"Ascend310P3 has no {OPERATOR}",
    )


class Wrong(StandIn):
    def npu_top_k_top_p_sample(
        self, logits: Tensor, top_k: Tensor, top_p: Tensor, q: Tensor, **_: object
    ) -> tuple[Tensor, Tensor]:
        """Applies its noise by token id instead of by rank."""
        return (logits.softmax(-1) / q).argmax(-1), logits


def test_an_operator_that_draws_wrongly_is_not_used() -> None:
    probe = probe_operator(vendor(Wrong({})), "Ascend910B3", "cpu")

    assert probe.version is Version.NONE
    assert "draws token 1 instead of 3" in probe.problem


MIXED = [
    replace(PLAIN, top_k=50, top_p=0.9),
    RowParams(temperature=0.0),
    replace(PLAIN, top_p=0.7),
    replace(PLAIN, top_k=20, seed=5, seeded=True),
    PLAIN,
    replace(PLAIN, top_k=8, logprobs=2),
]


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_a_mixed_batch_is_split(version: str) -> None:
    torch.manual_seed(3)
    logits = torch.randn(len(MIXED), 300) * 3 - 40
    stand_in = torch_npu(sample="V1" if version == "V1" else "V2")
    operator = NPUSampler(vendor(stand_in), Version[version])
    device = torch.device("cpu")
    plain = SamplingRows(MIXED, [0] * 6, vocabulary=300, device=device)
    fused = SamplingRows(MIXED, [0] * 6, vocabulary=300, device=device, operator=operator)

    expected, drawn = sample(logits, plain), sample(logits, fused)

    ours = [1, 3, 5] if version == "V2" else [1, 2, 3, 5]
    assert drawn.ids[ours].tolist() == expected.ids[ours].tolist()
    assert stand_in.calls[OPERATOR] == 1
    possible = probabilities(logits, plain).gather(1, drawn.ids.unsqueeze(1))
    assert bool((possible > 0).all())
    assert torch.equal(probabilities(logits, fused), probabilities(logits, plain))


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_rows_are_drawn_from_the_requested_distribution(version: str) -> None:
    rows = 6000
    logits = torch.tensor([[2.0, -1.0, 1.5, 0.3, -torch.inf, 0.0, -200.0, 1.0]]) - 90
    params = replace(PLAIN, top_k=5, top_p=0.95)
    stand_in = torch_npu(sample="V1" if version == "V1" else "V2")
    operator = NPUSampler(vendor(stand_in), Version[version])
    torch.manual_seed(1)

    drawn = sample(
        logits.expand(rows, -1),
        SamplingRows(
            [params] * rows, [0] * rows, vocabulary=8, device=logits.device, operator=operator
        ),
    )

    plain = SamplingRows([params], [0], vocabulary=8, device=logits.device)
    expected = probabilities(logits, plain)[0] * rows
    found = drawn.ids.bincount(minlength=8).float()
    assert found[expected == 0].sum() == 0
    held = expected > 0
    chi_square = ((found - expected).square() / expected)[held].sum()
    assert chi_square < 24, "the 99.99th percentile of 4 degrees of freedom is 23.5"


@pytest.mark.parametrize("version", ["V1", "V2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_operator_on_a_device_gives_what_torch_gives(version: str, dtype: torch.dtype) -> None:
    """k and p on, off, zero and negative, at once; rows that version 1 cannot draw go to torch."""
    torch.manual_seed(5)
    logits = (torch.randn(40, 60) * 2).to(dtype)
    logits[3] -= 120
    ks = torch.tensor([0, -1, 1, 5, 60, 61, 2000, 7] * 5, dtype=torch.int32)
    ps = torch.tensor([0.5, 1.0, 0.9, -0.5, 1.5] * 8).to(dtype)
    q = torch.empty(40, 60).exponential_()
    expected = top_k_top_p_sample(logits, ks, ps, q, is_need_logits=True)
    stand_in = torch_npu(sample="V1" if version == "V1" else "V2")

    use_operator("cpu", NPUOperator(vendor(stand_in), Version[version]))
    try:
        ids, kept = top_k_top_p_sample(logits, ks, ps, q, is_need_logits=True)
        greedy, nothing = top_k_top_p_sample(logits, ks, ps)
    finally:
        use_operator("cpu", None)

    assert torch.equal(ids, expected[0])
    assert kept is not None
    assert expected[1] is not None
    assert torch.equal(kept, expected[1])
    assert torch.equal(greedy, top_k_top_p_sample(logits, ks, ps)[0])
    assert nothing is None
    used = version == "V2" or dtype == torch.float16
    assert (stand_in.calls[OPERATOR] > 0) == used
