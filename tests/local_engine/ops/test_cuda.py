"""Attention on CUDA, with plain implementations in place of the operator and the paged kernel."""

# torch annotates tolist and its operators in part only:
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

import random
from collections.abc import Callable

import pytest
import torch
from msgspec import structs
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import AttentionParams, Share
from strowger_gateway.local_engine.ops.cuda import FlashCache, Paged, offsets_of
from strowger_gateway.local_engine.ops.cuda_offers import cuda_offers
from strowger_gateway.local_engine.ops.kernels import PAGE, TORCH, NormParams
from strowger_gateway.local_engine.ops.page_table import PageRows
from strowger_gateway.local_engine.ops.self_test import (
    Shape,
    attention_pairs,
    choose_kernels,
    problem_of,
    run_trials,
)

SHAPE = Shape(heads=4, kv_heads=2, width=64, hidden=256)
OPERATOR = torch.ops.aten._flash_attention_forward.default


def flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Tensor,
    cum_seq_k: Tensor,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float,
    window_size_left: int | None,
    window_size_right: int | None,
    seqused_k: Tensor,
) -> tuple[Tensor, ...]:
    """Implement the kernel's documentation, sequence by sequence in float64."""
    batch = len(seqused_k)
    assert query.dtype in (torch.float16, torch.bfloat16)
    assert {one.dtype for one in (cum_seq_q, cum_seq_k, seqused_k)} == {torch.int32}
    assert len(cum_seq_q) == len(cum_seq_k) == batch + 1
    assert all(one.is_contiguous() for one in (query, cum_seq_q, cum_seq_k, seqused_k))
    assert int(seqused_k.max()) <= max_k
    assert is_causal
    assert dropout_p == 0
    assert not return_debug_mask
    assert (window_size_left is None) == (window_size_right is None)
    out = torch.empty_like(query)
    groups = query.shape[1] // key.shape[1]
    for row in range(batch):
        begin, end = int(cum_seq_q[row]), int(cum_seq_q[row + 1])
        first, count = int(cum_seq_k[row]), int(seqused_k[row])
        assert end - begin <= max_q
        seen, read = (
            one[first : first + count].double().transpose(0, 1).repeat_interleave(groups, 0)
            for one in (key, value)
        )
        scores = query[begin:end].double().transpose(0, 1) @ seen.transpose(1, 2) * scale
        own = torch.arange(count - (end - begin), count).unsqueeze(1)
        places = torch.arange(count)
        hidden = places > own
        if window_size_left is not None:
            hidden |= places < own - window_size_left
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        out[begin:end] = (weights @ read).transpose(0, 1).to(query.dtype)
    return (out,)


def paged(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    rows: PageRows,
    params: AttentionParams,
    splits: int = 0,
) -> Tensor:
    """Implement `Paged`'s documentation, sequence by sequence in float64."""
    assert {one.dtype for one in (rows.table, rows.seats, rows.used)} == {torch.int32}
    assert len(rows.seats) == len(rows.used) == len(query)
    out = torch.empty_like(query)
    groups = query.shape[1] // keys.shape[1]
    for row in range(len(query)):
        seat, count = int(rows.seats[row]), int(rows.used[row])
        places = torch.arange(max(0, count - params.window) if params.window else 0, count)
        slots = rows.table[seat][places // PAGE].long() * PAGE + places % PAGE
        seen, read = (one[slots].double().repeat_interleave(groups, 1) for one in (keys, values))
        scores = torch.einsum("hd,nhd->hn", query[row].double(), seen) * params.scale
        if params.softcap is not None:
            scores = torch.tanh(scores / params.softcap) * params.softcap
        if params.sinks is not None:
            scores = torch.cat([scores, params.sinks.double().unsqueeze(1)], 1)
        weights = scores.softmax(-1)[:, : len(places)]
        out[row] = torch.einsum("hn,nhd->hd", weights, read).to(query.dtype)
    return out


def finish(
    mixed: Tensor,
    cos: Tensor,
    sin: Tensor,
    norms: tuple[NormParams, NormParams] | None,
    slots: Tensor,
    keys: Tensor,
    values: Tensor,
) -> Tensor:
    """Implement `Finish`'s documentation by separate operations."""
    kv_heads = keys.shape[1]
    query, key, value = mixed.tensor_split((-2 * kv_heads, -kv_heads), dim=1)
    if norms is not None:
        query, key = (
            TORCH.norm(x, one.weight, one.eps) for x, one in zip((query, key), norms, strict=True)
        )
    angles = TORCH.rotary.prepare(cos, sin)
    keys[slots] = TORCH.rotary.rotate(key, *angles)
    values[slots] = value
    return TORCH.rotary.rotate(query, *angles)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_cache_calls_its_kernels_so_that_it_matches_torch(dtype: torch.dtype) -> None:
    offers = cuda_offers(SHAPE, dtype, device="cpu", flash=flash, paged=lambda: paged)

    trials = run_trials(offers, thorough=True)

    assert [trial.problem for trial in trials if trial.role == "attention"] == ["", ""]
    assert isinstance(choose_kernels("cuda", offers, trials).cache(PAGE), FlashCache)


def no_triton() -> Paged:
    raise ImportError("No module named 'triton'")


def other_numbers(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    rows: PageRows,
    params: AttentionParams,
    splits: int = 0,
) -> Tensor:
    """Ignores the second of several parts: wrong for long sequences only."""
    short = structs.replace(rows, used=rows.used.clamp(max=300))
    return paged(query, keys, values, short, params, splits)


class UnknownGPU(Exception):
    """As Triton's compiler raises: of no type that a caller can know without Triton."""


def not_compiled() -> Paged:
    raise UnknownGPU("sm_30 has no tensor cores")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (no_triton, "No module named 'triton'"),
        (lambda: other_numbers, "differs from torch"),
        (not_compiled, "sm_30 has no tensor cores"),
    ],
)
def test_a_paged_kernel_that_fails_its_trial_leaves_the_flash_operator(
    made: Callable[[], Paged], reason: str
) -> None:
    offers = cuda_offers(SHAPE, torch.float16, device="cpu", flash=flash, paged=made)

    trials = run_trials(offers)

    assert reason in trials[0].problem
    assert trials[1].problem == ""
    chosen = choose_kernels("cuda", offers, trials).cache(PAGE)
    assert isinstance(chosen, FlashCache)
    assert chosen.table(torch.device("cpu")) is None


def test_without_the_operator_plain_attention_is_used() -> None:
    """The operator exists on this machine, but not for a CPU."""
    offers = cuda_offers(SHAPE, torch.bfloat16, device="cpu", paged=lambda: paged)

    trials = run_trials(offers)

    assert "NotImplementedError" in trials[1].problem
    assert choose_kernels("cuda", offers, trials).cache is TORCH.cache
    assert cuda_offers(SHAPE, torch.float32, device="cpu") == ()


def test_every_keyword_is_one_of_the_operators() -> None:
    names = {one.name for one in OPERATOR._schema.arguments}

    assert {"scale", "window_size_left", "window_size_right", "seqused_k"} <= names


def test_float32_is_served_by_torch_over_the_same_slots() -> None:
    def cache(slots: int) -> FlashCache:
        return FlashCache(slots, flash=flash)

    fault = problem_of(lambda: attention_pairs(cache, SHAPE, PAGE, torch.float32, "cpu"))

    assert fault == ""


def test_contiguous_sequences_are_read_in_place() -> None:
    shares = (Share(count=1, keys=20, blocks=(7, 8)), Share(count=3, keys=5, blocks=(2,)))

    offsets = offsets_of(shares, PAGE, torch.device("cpu"))

    assert offsets.gather is None
    assert offsets.starts[:2].tolist() == [7 * PAGE, 2 * PAGE]
    assert offsets.ends.tolist() == [0, 1, 4]
    assert offsets.used.tolist() == [20, 5]
    assert (offsets.most_rows, offsets.most_keys) == (3, 20)


def test_sequences_in_pieces_are_gathered_key_by_key() -> None:
    source = random.Random(2)
    for _ in range(20):
        blocks = source.sample(range(40), 9)
        shares = tuple(
            Share(
                count=1,
                keys=source.randint(2 * PAGE + 1, 3 * PAGE),
                blocks=tuple(blocks[at : at + 3]),
            )
            for at in (0, 3, 6)
        )

        offsets = offsets_of(shares, PAGE, torch.device("cpu"))

        assert offsets.gather is not None
        for row, share in enumerate(shares):
            first = int(offsets.starts[row])
            for position in range(share.keys):
                slot = share.blocks[position // PAGE] * PAGE + position % PAGE
                assert int(offsets.gather[first + position]) == slot


def test_a_page_is_copied_whole() -> None:
    cache = FlashCache(3 * PAGE, flash=flash)
    keys, _ = cache.of(0, torch.zeros(1, 2, 8), torch.zeros(1, 2, 8))
    keys.copy_(torch.randn(keys.shape))
    before = keys.clone()

    cache.copy(0, 2 * PAGE, PAGE)

    assert torch.equal(keys[:, 2 * PAGE :], before[:, :PAGE])
    assert cache.slot_bytes == 2 * 2 * 8 * 4
