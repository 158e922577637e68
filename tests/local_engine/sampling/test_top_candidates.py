"""Block maxima find exactly what a stable sort finds."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from strowger_gateway.local_engine.sampling.top_candidates import (
    BLOCK,
    block_argmax,
    block_maxima,
    top_candidates,
)
from tests.examples import examples
from tests.local_engine.tensor_values import nested

WIDTHS = (1, 2, 63, 64, 65, 130, 1000, 4096, 5000, 20_000, 50_257)


def some_logits(seed: int, rows: int, vocabulary: int, kind: str) -> Tensor:
    numbers = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocabulary, generator=numbers)
    match kind:
        case "ties":
            return logits.round()
        case "banned":
            return logits.masked_fill(logits > 0, -torch.inf)
        case "signed zeros":
            return logits.round().clamp(-1, 0) * 0.0 * logits.sign() + 0.0
        case _:
            return logits


@settings(max_examples=examples(150), deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from(WIDTHS),
    st.sampled_from((1, 2, 5, 50, 64, 129, 300, 1024, 60_000)),
    st.sampled_from(("plain", "ties", "banned", "signed zeros")),
    st.sampled_from((None, (0,), (2, 0), (1, 1, 2))),
)
def test_the_largest_logits_come_in_the_order_of_a_stable_sort(
    seed: int, vocabulary: int, count: int, kind: str, places: tuple[int, ...] | None
) -> None:
    logits = some_logits(seed, 3, vocabulary, kind)
    rows = None if places is None else torch.tensor(places)

    best = top_candidates(logits, block_maxima(logits), count, rows)

    chosen = logits if rows is None else logits[rows]
    values, ids = chosen.sort(dim=-1, descending=True, stable=True)
    assert torch.equal(best.ids, ids[:, :count])
    assert torch.equal(best.values, values[:, :count])


@pytest.mark.parametrize("vocabulary", WIDTHS)
@pytest.mark.parametrize("kind", ["plain", "ties", "banned"])
def test_greedy_takes_the_lowest_id_among_the_largest(vocabulary: int, kind: str) -> None:
    logits = some_logits(vocabulary, 4, vocabulary, kind)
    peaks = block_maxima(logits)

    everything = block_argmax(logits, peaks)
    some = block_argmax(logits, peaks, torch.tensor([3, 1]))

    assert torch.equal(everything, logits.argmax(-1))
    assert torch.equal(some, logits[[3, 1]].argmax(-1))


def test_a_view_with_gaps_is_read_like_its_copy() -> None:
    wide = torch.randn(3, 10_000)
    gaps = wide[:, ::2]

    best = top_candidates(gaps, block_maxima(gaps), 20)

    assert torch.equal(best.ids, gaps.topk(20).indices)


def test_a_row_without_any_allowed_token_still_yields_ids_of_the_vocabulary() -> None:
    logits = torch.full((2, 10 * BLOCK + 3), -torch.inf)

    best = top_candidates(logits, block_maxima(logits), 3)

    assert nested(best.ids) == [[0, 1, 2], [0, 1, 2]]
