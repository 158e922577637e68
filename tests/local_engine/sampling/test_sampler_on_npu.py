"""The engine's own sampler on the NPU of the stand-in, whose rules are the device's."""

# torch annotates tolist in part only:
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.sampling.batch_params import SamplingRows
from strowger_gateway.local_engine.sampling.logits_processors import Allowed, unpack_mask
from strowger_gateway.local_engine.sampling.sampler import Sampled, probabilities, sample
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.token_history import new_history
from tests.local_engine.stand_ins import npu_device

PLAIN = RowParams(temperature=0.8, seed=11, seeded=True)
ROWS = {
    "greedy": RowParams(temperature=0.0),
    "whole vocabulary": replace(PLAIN, temperature=1.0),
    "hot": replace(PLAIN, temperature=1.7),
    "top-k": replace(PLAIN, top_k=50),
    "top-k 700": replace(PLAIN, top_k=700),
    "top-k 2000": replace(PLAIN, top_k=2000),
    "top-k and top-p": replace(PLAIN, top_k=20, top_p=0.9),
    "top-p": replace(PLAIN, top_p=0.95, temperature=1.3),
    "min-p": replace(PLAIN, min_p=0.02),
    "typical-p": replace(PLAIN, typical_p=0.7),
    "log probabilities": replace(PLAIN, top_k=30, logprobs=5),
    "greedy with log probabilities": RowParams(temperature=0.0, logprobs=3),
    "penalties": replace(
        PLAIN, repetition_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2
    ),
    "bias and bans": replace(PLAIN, logit_bias=((3, 4.0), (9, -5.0)), bad_words=((7,), (1, 2))),
}


@pytest.fixture(scope="module", autouse=True)
def device() -> torch.device:
    npu_device.start()
    return torch.device("npu")


def drawn(
    params: list[RowParams], vocabulary: int, device: torch.device, allowed: Allowed | None = None
) -> list[Sampled]:
    """Three steps of a batch over the same random logits."""
    histories = [new_history(row, [1, 5, 5, 8], 4, vocabulary=vocabulary) for row in params]
    rows = SamplingRows(params, [0] * len(params), histories, vocabulary=vocabulary, device=device)
    steps: list[Sampled] = []
    for step in range(3):
        noise = torch.Generator().manual_seed(step)
        logits = torch.randn(len(params), vocabulary, generator=noise) * 3
        steps.append(sample(logits.to(device), rows, allowed))
        rows.advance(cast(list[int], steps[-1].ids.tolist()))
    return steps


def assert_equal(there: list[Sampled], here: list[Sampled]) -> None:
    for ours, expected in zip(there, here, strict=True):
        assert ours.ids.tolist() == expected.ids.tolist()
        if expected.logprobs is not None:
            assert ours.logprobs is not None
            assert torch.equal(ours.logprobs.top_ids.cpu(), expected.logprobs.top_ids)
            torch.testing.assert_close(ours.logprobs.top.cpu(), expected.logprobs.top)
            torch.testing.assert_close(ours.logprobs.chosen.cpu(), expected.logprobs.chosen)


@pytest.mark.parametrize("vocabulary", [320, 5000, 1 << 15])
@pytest.mark.parametrize("kind", [*ROWS, "all together"])
def test_a_seed_draws_the_same_tokens_on_an_npu_as_on_the_cpu(
    kind: str, vocabulary: int, device: torch.device
) -> None:
    params = [*ROWS.values()] if kind == "all together" else [ROWS[kind]] * 2

    there = drawn(params, vocabulary, device)

    assert_equal(there, drawn(params, vocabulary, torch.device("cpu")))


def test_a_grammar_permits_the_same_tokens_on_an_npu(device: torch.device) -> None:
    bits = torch.arange(5, dtype=torch.int32) * 0x1234567
    params = [ROWS["top-p"], ROWS["greedy"]]

    def allowed(place: torch.device) -> Allowed:
        mask = unpack_mask(bits.to(place).unsqueeze(0), 150)
        return Allowed(mask=mask, rows=torch.tensor([1]).to(place))

    there = drawn(params, 150, device, allowed(device))

    assert_equal(there, drawn(params, 150, torch.device("cpu"), allowed(torch.device("cpu"))))


def test_drafts_are_accepted_by_the_same_probabilities(device: torch.device) -> None:
    params = [*ROWS.values()]
    logits = torch.randn(len(params), 700) * 2

    def spread(place: torch.device) -> Tensor:
        histories = [new_history(row, [1], 1, vocabulary=700) for row in params]
        positions = [0] * len(params)
        rows = SamplingRows(params, positions, histories, vocabulary=700, device=place)
        return probabilities(logits.to(place), rows)

    assert torch.equal(spread(device).cpu(), spread(torch.device("cpu")))


REFUSED: list[tuple[str, str, Callable[[Tensor], object]]] = [
    ("a shift by a scalar of the host", "same device", lambda x: x >> torch.tensor(1)),
    ("a tensor of the host", "same device", lambda x: x + torch.ones(4, dtype=torch.int64)),
    ("float64", "float64", lambda x: x.double() * 2),
    (
        "float64 by promotion",
        "float64",
        lambda x: x * torch.full((1,), 0.5, dtype=torch.float64).to(x.device),
    ),
    (
        "an operator without a kernel",
        "CPU fallback",
        lambda x: cast(Tensor, torch.special.bessel_j0(x.float())),
    ),
    ("numpy", "can't convert", np.asarray),
]


@pytest.mark.parametrize(
    ("rule", "call"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_the_stand_in_refuses_what_the_device_refuses(
    rule: str, call: Callable[[Tensor], object], device: torch.device
) -> None:
    given = torch.arange(4, device=device)

    with pytest.raises((RuntimeError, TypeError), match=rule):
        call(given)


def test_the_stand_in_computes_in_the_tensors_own_memory(device: torch.device) -> None:
    table = torch.arange(12.0, device=device).view(3, 4)
    table[1:, ::2].mul_(10)
    table.t()[3].fill_(-1)

    assert (table * 2 + torch.tensor(1.0)).tolist() == [
        [1.0, 3.0, 5.0, -1.0],
        [81.0, 11.0, 121.0, -1.0],
        [161.0, 19.0, 201.0, -1.0],
    ]
