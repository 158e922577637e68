"""A device that cannot draw: found at loading, or in a step, and the host draws the same tokens."""

# torch.library's parts used here are annotated in part only:
# pyright: reportUnknownMemberType=false

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import pytest
import torch
from msgspec import Struct
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.execution.step_sampler import (
    SamplingState,
    StepSampler,
    tried_sampler,
)
from strowger_gateway.local_engine.guided.grammar import Grammar
from strowger_gateway.local_engine.ops.npu.sampling import NPUSampler, SamplingNPU, Version
from strowger_gateway.local_engine.ops.sampler_trial import KINDS, sampler_problem
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.token_history import History, new_history
from strowger_gateway.local_engine.scheduling.sequence import Sequence as TokenSequence
from strowger_gateway.local_engine.scheduling.sequence import new_sequence
from tests.local_engine.stand_ins import npu_device
from tests.local_engine.stand_ins.npu_stand_in import torch_npu

V = 3000
OPERATOR = "npu_top_k_top_p_sample"


class Row(Struct, frozen=True, kw_only=True):
    sequence: TokenSequence
    params: RowParams
    history: History | None
    grammar: Grammar | None = None


@pytest.fixture(scope="module", autouse=True)
def npu() -> torch.device:
    npu_device.start()
    return torch.device("npu")


def batch(params: list[RowParams]) -> list[SamplingState]:
    return [
        Row(
            sequence=new_sequence(id=place, prompt=[1, 2], max_total=50, salt=b""),
            params=row,
            history=new_history(row, [1, 2], 2, vocabulary=V),
        )
        for place, row in enumerate(params)
    ]


def tokens(sampler: StepSampler, place: str, params: list[RowParams]) -> list[int]:
    logits = torch.randn(len(params), V, generator=torch.Generator().manual_seed(4)) * 2
    return [drawn.token for drawn in sampler.draw(logits.to(place), batch(params))]


@contextmanager
def refusing(*operators: str) -> Generator[None]:
    """Let the device refuse an operator of ATen."""
    npu_device.refused.update(operators)
    try:
        yield
    finally:
        npu_device.refused.difference_update(operators)


@pytest.mark.parametrize("vocabulary", [200, 5000, 40_000])
def test_a_device_that_draws_as_the_host_passes_the_trial(
    vocabulary: int, npu: torch.device
) -> None:
    assert sampler_problem(npu, vocabulary) == ""


FAULTS = ["topk", "bitwise_right_shift.Tensor_out", "logsumexp", "index_add.out", "gather"]


@pytest.mark.parametrize("operator", FAULTS)
def test_a_device_that_refuses_an_operator_leaves_drawing_to_the_host(
    operator: str, npu: torch.device, caplog: pytest.LogCaptureFixture
) -> None:
    params = [*KINDS.values()]
    expected = tokens(StepSampler(V, "cpu"), "cpu", params)

    with refusing(operator), caplog.at_level(logging.WARNING, logger="strowger.engine"):
        sampler = tried_sampler(V, "npu")
        drawn = tokens(sampler, "npu", params)

    assert drawn == expected
    assert sampler.device.type == "cpu"
    assert caplog.text.count("npu fails the sampler's trial") == 1
    assert operator in caplog.text


def test_a_device_that_orders_equals_differently_fails_the_trial(npu: torch.device) -> None:
    def last(values: Tensor, dim: int, keepdim: bool, *, out: Tensor) -> Tensor:
        return out.copy_(values.size(dim) - 1 - values.flip(dim).argmax(dim, keepdim))

    with npu_device.computing("argmax.out", last):
        problem = sampler_problem(npu, V)

    assert problem.startswith("draws other tokens than the host: ")
    assert "greedy" in problem


@pytest.mark.parametrize("step", [1, 4])
def test_a_refusal_in_a_step_moves_drawing_to_the_host_and_no_token_changes(
    step: int, caplog: pytest.LogCaptureFixture
) -> None:
    params = [*KINDS.values()]
    expected = tokens(StepSampler(V, "cpu"), "cpu", params)
    sampler = tried_sampler(V, "npu")

    with caplog.at_level(logging.WARNING, logger="strowger.engine"):
        for _ in range(step):
            assert tokens(sampler, "npu", params) == expected
        with refusing("logsumexp"):
            after = [tokens(sampler, "npu", params) for _ in range(3)]

    assert after == [expected] * 3
    assert caplog.text.count("the host draws tokens from now on") == 1


def test_an_operator_that_refuses_in_a_step_is_dropped_and_the_device_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stand_in = torch_npu()
    operator = NPUSampler(cast(SamplingNPU, stand_in), Version.V2)
    sampler = tried_sampler(V, "npu", operator)
    free = [replace(KINDS["top-k"], seeded=False)] * 2
    tokens(sampler, "npu", free)
    assert stand_in.calls[OPERATOR] == 1
    expected = tokens(StepSampler(V, "cpu"), "cpu", free)

    delattr(stand_in, OPERATOR)
    with caplog.at_level(logging.WARNING, logger="strowger.engine"):
        after = [tokens(sampler, "npu", free) for _ in range(2)]

    assert after == [expected] * 2
    assert sampler.device.type == "npu"
    assert caplog.text.count("sampling operator is not used any more") == 1


def test_a_broken_device_is_not_taken_for_a_refusal(npu: torch.device) -> None:
    def broken(*_: object, **__: object) -> Tensor:
        raise RuntimeError(
            "ERR00100 PTA call acl api failed, error code is 507015: aicore exception"
        )

    sampler = tried_sampler(V, "npu")

    with npu_device.computing("argmax.out", broken):
        with pytest.raises(RuntimeError, match="507015"):
            sampler_problem(npu, V)
        with pytest.raises(RuntimeError, match="507015"):
            tokens(sampler, "npu", [KINDS["greedy"]])
    assert sampler.device.type == "npu"
