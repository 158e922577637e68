"""The distribution that a row is drawn from equals transformers' warpers, alone and chained."""

from collections.abc import Callable
from typing import cast

import pytest
import torch
from torch import Tensor
from transformers.generation.logits_process import (
    LogitsProcessor,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from strowger_gateway.local_engine.sampling.batch_params import Method, SamplingRows, method_of
from strowger_gateway.local_engine.sampling.sampler import probabilities
from strowger_gateway.local_engine.sampling.sampling_params import RowParams, TopPDecay
from strowger_gateway.local_engine.sampling.token_history import new_history

CPU = torch.device("cpu")
VOCABULARIES = (3, 60, 64, 500, 3000)


def warped(logits: Tensor, params: RowParams) -> Tensor:
    """Return transformers' result, float64 [1, V]: its warpers in the engine's order."""
    warpers: list[LogitsProcessor] = [TemperatureLogitsWarper(params.temperature)]
    if params.min_p > 0:
        warpers.append(MinPLogitsWarper(params.min_p))
    if params.typical_p < 1:
        warpers.append(TypicalLogitsWarper(params.typical_p))
    if params.top_k > 0:
        warpers.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        warpers.append(TopPLogitsWarper(params.top_p))
    scores = logits.to(torch.float64)
    for warper in warpers:
        call = cast("Callable[[None, Tensor], Tensor]", warper)
        scores = call(None, scores)
    return scores.softmax(-1)


def distribution(logits: Tensor, *params: RowParams) -> Tensor:
    rows = SamplingRows(params, [0] * len(params), vocabulary=logits.size(1), device=CPU)
    return probabilities(logits, rows)


ONE_BY_ONE = {
    "temperature": RowParams(temperature=0.6),
    "high temperature": RowParams(temperature=3.0),
    "top_k": RowParams(top_k=7),
    "top_k of two": RowParams(top_k=2),
    "wide top_k": RowParams(top_k=100),
    "top_k over 1024": RowParams(top_k=2000),
    "top_p": RowParams(top_p=0.7),
    "narrow top_p": RowParams(top_p=0.05),
    "wide top_p": RowParams(top_p=0.995),
    "min_p": RowParams(min_p=0.2),
    "wide min_p": RowParams(min_p=0.0005),
    "min_p of 1": RowParams(min_p=1.0),
    "typical_p": RowParams(typical_p=0.5),
    "wide typical_p": RowParams(typical_p=0.95),
    "top_k and top_p": RowParams(temperature=0.8, top_k=50, top_p=0.9),
    "wide top_k and top_p": RowParams(temperature=1.3, top_k=300, top_p=0.97),
    "huge top_k and top_p": RowParams(temperature=1.7, top_k=1500, top_p=0.97),
    "min_p and top_k": RowParams(min_p=0.1, top_k=5),
    "min_p and top_p": RowParams(temperature=1.5, min_p=0.002, top_p=0.8),
    "min_p and typical_p": RowParams(min_p=0.05, typical_p=0.6),
    "typical_p and top_k": RowParams(typical_p=0.8, top_k=4),
    "everything": RowParams(temperature=0.9, min_p=0.01, typical_p=0.9, top_k=40, top_p=0.9),
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_a_filter_leaves_what_transformers_warper_leaves(name: str, vocabulary: int) -> None:
    params = ONE_BY_ONE[name]
    numbers = torch.Generator().manual_seed(vocabulary)
    for spread in (0.3, 1.0, 3.0, 8.0):
        logits = torch.randn(1, vocabulary, generator=numbers) * spread

        ours = distribution(logits, params)

        theirs = warped(logits, params).to(torch.float32)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
@pytest.mark.parametrize(
    "params",
    [
        RowParams(top_p=0.99),
        RowParams(min_p=0.001),
        RowParams(min_p=0.001, top_p=0.9),
        RowParams(top_k=1500, top_p=0.99),
        RowParams(top_k=20_000, top_p=0.99),
    ],
)
def test_a_flat_distribution_is_searched_as_widely_as_needed(
    params: RowParams, spread: float
) -> None:
    logits = torch.randn(1, 40_000, generator=torch.Generator().manual_seed(1)) * spread

    ours = distribution(logits, params)

    theirs = warped(logits, params).to(torch.float32)
    assert torch.equal(ours > 0, theirs > 0)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-9)


def test_every_filter_at_once_in_one_batch_changes_nothing_for_any_row() -> None:
    logits = torch.randn(len(ONE_BY_ONE), 3000, generator=torch.Generator().manual_seed(5)) * 2

    together = distribution(logits, *ONE_BY_ONE.values())

    for at, params in enumerate(ONE_BY_ONE.values()):
        assert torch.equal(together[at : at + 1], distribution(logits[at : at + 1], params))


def test_the_filters_see_exactly_k_tokens_where_transformers_keeps_every_tie() -> None:
    ours = distribution(torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0]]), RowParams(top_k=2))

    assert ours[0, 1:3].sum() == 1


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("vocabulary", [10, 100, 5000])
def test_equal_logits_are_cut_where_arithmetic_requires(share: float, vocabulary: int) -> None:
    ours = distribution(torch.zeros(1, vocabulary), RowParams(top_p=share))

    assert int((ours > 0).sum()) == round(share * vocabulary)
    assert bool((ours[0, : round(share * vocabulary)] > 0).all())


@pytest.mark.parametrize(
    ("params", "method"),
    [
        (RowParams(temperature=0.0), Method.GREEDY),
        (RowParams(temperature=1e-6, top_k=50), Method.GREEDY),
        (RowParams(top_k=1), Method.GREEDY),
        (RowParams(top_p=0.0), Method.GREEDY),
        (RowParams(), Method.FREE),
        (RowParams(top_k=5000), Method.FREE),
        (RowParams(top_k=9999), Method.FREE),
        (RowParams(top_k=64), Method.NARROW),
        (RowParams(top_p=0.9), Method.NARROW),
        (RowParams(min_p=0.1), Method.NARROW),
        (RowParams(top_k=65), Method.WIDE),
        (RowParams(top_k=1024, top_p=0.9), Method.WIDE),
        (RowParams(top_k=1025), Method.WHOLE),
        (RowParams(typical_p=0.9), Method.WHOLE),
    ],
)
def test_a_rows_method_follows_from_its_own_parameters(params: RowParams, method: Method) -> None:
    assert method_of(params, 5000) is method


@pytest.mark.parametrize("params", [RowParams(temperature=0.0), RowParams(top_k=1)])
def test_a_greedy_row_has_all_its_mass_on_one_token(params: RowParams) -> None:
    ours = distribution(torch.tensor([[1.0, 5.0, 5.0, 2.0]]), params)

    assert torch.equal(ours, torch.tensor([[0.0, 1.0, 0.0, 0.0]]))


def test_top_p_may_decay_down_to_its_floor_and_start_again_at_a_token() -> None:
    params = RowParams(top_p=0.9, decay=TopPDecay(factor=0.5, floor=0.3, reset_id=7))
    history = new_history(params, [7, 7, 7], prompt=3)
    logits = torch.log(torch.tensor([[0.4, 0.3, 0.2, 0.1]]))
    rows = SamplingRows([params], [0], [history], vocabulary=4, device=CPU)

    kept: list[int] = []
    for token in (1, 1, 1, 7, 1):
        kept.append(int((probabilities(logits, rows) > 0).sum()))
        rows.advance([token])

    assert kept == [3, 2, 1, 1, 3]
