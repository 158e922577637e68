"""top_k_top_p_sample keeps the contract of aclnnTopKTopPSample."""

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from strowger_gateway.local_engine.sampling.top_k_top_p_operator import (
    InvalidOperand,
    top_k_top_p_sample,
)
from tests.examples import examples
from tests.local_engine.stand_ins.operator_oracle import literal, plain
from tests.local_engine.tensor_values import finite_places, integers

P = (0.05, 0.40, 0.10, 0.25, 0.15, 0.05)
Q = (2.0, 0.1, 1.0, 1.0, 1.0, 1.0)
OFF = 9999


def row(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float32)


def of(k: int) -> Tensor:
    return torch.tensor([k], dtype=torch.int32)


def log_p() -> Tensor:
    return row(*(math.log(share) for share in P))


@pytest.mark.parametrize(
    ("k", "p", "noisy", "kept", "index"),
    [
        pytest.param(OFF, 1.0, False, {0, 1, 2, 3, 4, 5}, 1, id="1 softmax-argmax"),
        pytest.param(3, 1.0, False, {1, 3, 4}, 1, id="2 top-k"),
        pytest.param(OFF, 0.6, False, {1, 3}, 1, id="3 top-p"),
        pytest.param(OFF, 1.0, True, {0, 1, 2, 3, 4, 5}, 1, id="4 sample"),
        pytest.param(3, 0.6, False, {1, 3}, 1, id="5 top-k, top-p"),
        pytest.param(3, 1.0, True, {1, 3, 4}, 3, id="6 top-k, sample"),
        pytest.param(OFF, 0.6, True, {1, 3}, 3, id="7 top-p, sample"),
        pytest.param(3, 0.6, True, {1, 3}, 3, id="8 all three"),
    ],
)
def test_each_of_the_eight_scenarios_keeps_and_picks_what_was_worked_out_by_hand(
    k: int, p: float, noisy: bool, kept: set[int], index: int
) -> None:
    picked, logits = top_k_top_p_sample(
        log_p(), of(k), row(p)[0], row(*Q) if noisy else None, is_need_logits=True
    )

    assert picked.dtype == torch.int64
    assert integers(picked) == [index]
    assert logits is not None
    assert logits.dtype == torch.float32
    assert finite_places(logits[0]) == kept
    assert all(logits[0, token] == log_p()[0, token] for token in kept)


class Vector(NamedTuple):
    """Small rows for which the operator's versions differ."""

    logits: tuple[float, ...]
    k: int
    p: float
    q: tuple[float, ...] | None
    kept: set[int]
    token: int


VECTORS = {
    "the boundary token is dropped where the mass before it equals p": Vector(
        (0, 0, -40, -40), OFF, 0.5, None, {0}, 0
    ),
    "ties at the k-th value are cut by the lower id": Vector(
        (1, 3, 3, 2, 3), 2, 1.0, None, {1, 2}, 1
    ),
    "softmax is taken once": Vector(
        tuple(math.log(share) for share in P), OFF, 0.6, (1.2, 1, 1, 1, 1, 1), {1, 3}, 1
    ),
    "p of 0 keeps one token": Vector((1, 2, 3), OFF, 0.0, (1, 0.001, 0.001), {2}, 2),
    "a negative p keeps one token": Vector((1, 2, 3), 2, -0.5, (1, 0.001, 0.001), {2}, 2),
    "a negative k skips top-k": Vector((1, 2, 3), -3, 1.0, None, {0, 1, 2}, 2),
    "k of 0 skips top-k": Vector((1, 2, 3), 0, 1.0, None, {0, 1, 2}, 2),
    "k of V keeps everything, q by rank": Vector((1, 2, 3), 3, 1.0, (9, 0.01, 9), {0, 1, 2}, 1),
    "k over V keeps everything, q by id": Vector((1, 2, 3), 4, 1.0, (0.01, 9, 9), {0, 1, 2}, 0),
    "p over 1 skips top-p": Vector((1, 2, 3), OFF, 1.5, None, {0, 1, 2}, 2),
    "the sign of q does not matter": Vector((1, 1), OFF, 1.0, (2, -0.5), {0, 1}, 1),
    "rows far below zero do not underflow": Vector((-500, -501), OFF, 1.0, None, {0, 1}, 0),
    "equal scores go to the first": Vector((2, 2, 2), OFF, 1.0, (1, 1, 1), {0, 1, 2}, 0),
    "a zero's sign does not matter": Vector((-1, -0.0, 0.0), 1, 1.0, None, {1}, 1),
    "one token is enough": Vector((7,), 1, 0.5, (3,), {0}, 0),
}


@pytest.mark.parametrize("name", VECTORS)
def test_where_versions_of_the_operator_differ_the_second_decides(name: str) -> None:
    vector = VECTORS[name]
    q = None if vector.q is None else row(*vector.q)

    picked, kept = top_k_top_p_sample(
        row(*vector.logits), of(vector.k), row(vector.p)[0], q, is_need_logits=True
    )

    assert integers(picked) == [vector.token]
    assert kept is not None
    assert finite_places(kept[0]) == vector.kept


def test_a_k_between_1024_and_the_vocabulary_skips_top_k() -> None:
    logits = torch.randn(1, 3000)

    _, at_most = top_k_top_p_sample(logits, of(1024), row(1.0)[0], is_need_logits=True)
    _, over = top_k_top_p_sample(logits, of(1025), row(1.0)[0], is_need_logits=True)

    assert at_most is not None
    assert over is not None
    assert int(at_most.isfinite().sum()) == 1024
    assert int(over.isfinite().sum()) == 3000


def test_logits_are_returned_only_if_requested() -> None:
    assert top_k_top_p_sample(log_p(), of(3), row(0.6)[0])[1] is None


class Case(NamedTuple):
    logits: Tensor
    top_k: Tensor
    top_p: Tensor
    q: Tensor | None
    guess: int


def cases(seed: int, count: int) -> Iterator[Case]:
    """Batches of 16 rows: many ties or none, every dtype, k and p in and out of range."""
    pick = random.Random(seed)
    numbers = torch.Generator().manual_seed(seed)
    for _ in range(count):
        vocabulary = pick.choice([1, 2, 3, 7, 8, 20, 64, 100, 130, 500, 1500])
        shape = (16, vocabulary)
        logits = torch.randn(shape, generator=numbers) * pick.choice([0.1, 1.0, 5.0])
        if pick.random() < 0.5:
            logits = torch.randint(-3, 3, shape, generator=numbers).to(torch.float32)
        dtype = pick.choice([torch.float32, torch.bfloat16, torch.float16])
        ks = [-3, 0, 1, 2, 5, 9, vocabulary, vocabulary + 1, 1024, 1025, 2000]
        ps = [-0.5, 0, 0.1, 0.3, 0.5, 0.8, 0.9, 0.999, 1, 1.5]
        top_k = [pick.choice([*ks, pick.randint(1, vocabulary)]) for _ in range(16)]
        top_p = [pick.choice([*ps, pick.random()]) for _ in range(16)]
        q = torch.empty(shape).exponential_(generator=numbers) * pick.choice([1.0, -1.0])
        yield Case(
            logits=logits.to(dtype),
            top_k=torch.tensor(top_k, dtype=torch.int32),
            top_p=torch.tensor(top_p).to(dtype),
            q=None if pick.random() < 0.3 else q,
            guess=pick.choice([1, 4, 32, 2000]),
        )


def few(seeds: range) -> list[object]:
    """Some by day, that is 5,000 rows, and all at night."""
    return [
        *seeds[:4],
        *(pytest.param(seed, marks=pytest.mark.nightly) for seed in seeds[4:]),
    ]


@pytest.mark.parametrize("seed", few(range(8)))
def test_a_batch_equals_its_rows_taken_one_by_one_to_the_last_bit(seed: int) -> None:
    for case in cases(seed, 80):
        picked, kept = top_k_top_p_sample(
            case.logits, case.top_k, case.top_p, case.q, is_need_logits=True, top_k_guess=case.guess
        )

        assert kept is not None
        for at in range(16):
            k, p = int(case.top_k[at]), float(case.top_p[at])
            q = None if case.q is None else case.q[at]
            expected = literal(case.logits[at].to(torch.float32), k, p, q)
            assert int(picked[at]) == expected.token
            assert torch.equal(kept[at], expected.kept)


@pytest.mark.parametrize("seed", few(range(100, 108)))
def test_the_result_is_exact_where_rounding_cannot_decide(seed: int) -> None:
    certain = 0
    for case in cases(seed, 80):
        picked, kept = top_k_top_p_sample(
            case.logits, case.top_k, case.top_p, case.q, is_need_logits=True, top_k_guess=case.guess
        )

        assert kept is not None
        values, survivors = case.logits.to(torch.float64).numpy(), kept.isfinite().numpy()
        noise = None if case.q is None else case.q.to(torch.float64).numpy()
        for at in range(16):
            q = None if noise is None else noise[at]
            expected = plain(values[at], int(case.top_k[at]), float(case.top_p[at]), q)
            if expected.doubtful:
                continue
            certain += 1
            assert np.array_equal(survivors[at], expected.kept)
            assert int(picked[at]) == expected.token

    assert certain > 1100


def test_strides_do_not_matter() -> None:
    wide = torch.randn(6, 400)
    noise = torch.empty(6, 400).exponential_()
    for logits, q in ((wide[::2, ::2], noise[::2, ::2]), (wide.t()[:6, :3], noise.t()[:6, :3])):
        batch = logits.size(0)
        assert not logits.is_contiguous()
        k, p = (
            torch.full((batch * 2,), 3, dtype=torch.int32)[::2],
            torch.full((batch * 2,), 0.9)[::2],
        )

        strided = top_k_top_p_sample(logits, k, p, q, is_need_logits=True)
        packed = top_k_top_p_sample(
            logits.contiguous(), k.contiguous(), p.contiguous(), q.contiguous(), is_need_logits=True
        )

        assert torch.equal(strided[0], packed[0])
        assert strided[1] is not None
        assert packed[1] is not None
        assert torch.equal(strided[1], packed[1])


def test_the_operands_are_unchanged() -> None:
    logits, q = torch.randn(4, 300), torch.empty(4, 300).exponential_().neg_()
    k, p = torch.tensor([0, 5, 0, 7], dtype=torch.int32), torch.tensor([1.0, 1.0, 0.5, 0.9])
    before = [operand.clone() for operand in (logits, q, k, p)]

    top_k_top_p_sample(logits, k, p, q, is_need_logits=True)

    for operand, copy in zip((logits, q, k, p), before, strict=True):
        assert torch.equal(operand, copy)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([1, 7, 32, 500, 100_000]), st.floats(0.01, 0.99))
def test_the_guess_changes_the_time_and_never_the_result(seed: int, guess: int, p: float) -> None:
    numbers = torch.Generator().manual_seed(seed)
    logits = torch.randint(-9, 9, (3, 700), generator=numbers).to(torch.bfloat16)
    q = torch.empty(3, 700).exponential_(generator=numbers)
    k, ps = torch.zeros(3, dtype=torch.int32), torch.full((3,), p, dtype=torch.bfloat16)

    one = top_k_top_p_sample(logits, k, ps, q, is_need_logits=True, top_k_guess=guess)
    two = top_k_top_p_sample(logits, k, ps, q, is_need_logits=True)

    assert torch.equal(one[0], two[0])
    assert one[1] is not None
    assert two[1] is not None
    assert torch.equal(one[1], two[1])


@pytest.mark.parametrize(("k", "p"), [(OFF, 1.0), (4, 1.0), (OFF, 0.8), (4, 0.8)])
def test_exponential_noise_draws_from_the_distribution_that_the_filters_leave(
    k: int, p: float
) -> None:
    draws = 20_000
    q = torch.empty(draws, 6).exponential_(generator=torch.Generator().manual_seed(1))
    logits = log_p().expand(draws, 6)

    picked, _ = top_k_top_p_sample(
        logits, torch.full((draws,), k, dtype=torch.int32), torch.full((draws,), p), q
    )

    kept = plain(log_p()[0].to(torch.float64).numpy(), k, p, None).kept
    shares = torch.tensor(P) * torch.tensor(kept)
    shares /= shares.sum()
    counts = torch.bincount(picked, minlength=6)
    alive = shares > 0
    assert int(counts[~alive].sum()) == 0
    chi_square = ((counts - draws * shares) ** 2 / (draws * shares))[alive].sum()
    assert float(chi_square) < 25.7  # the 1 in 10,000 value of five degrees of freedom


VALID = {"logits": log_p(), "top_k": of(3), "top_p": row(0.6)[0], "q": row(*Q)}


@pytest.mark.parametrize(
    ("argument", "value", "status", "rule"),
    [
        ("logits", None, 161001, "not None"),
        ("top_k", None, 161001, "not None"),
        ("top_p", None, 161001, "not None"),
        ("logits", log_p().double(), 161002, "float16, bfloat16 or float32"),
        ("logits", log_p()[0], 161002, r"\[B, V\]"),
        ("logits", torch.zeros(0, 6), 161002, "B >= 1"),
        ("logits", torch.zeros(1, 0), 161002, "1 <= V"),
        ("logits", torch.zeros(1, (1 << 20) + 1), 161002, "V <= 1048576"),
        ("top_k", torch.tensor([3]), 161002, "int32"),
        ("top_k", of(3).unsqueeze(1), 161002, r"must be \[1\]"),
        ("top_k", torch.zeros(2, dtype=torch.int32), 161002, r"must be \[1\]"),
        ("top_k", torch.zeros(0, dtype=torch.int32), 161002, r"must be \[1\]"),
        ("top_p", row(0.6)[0].half(), 161002, "float32"),
        ("top_p", row(0.6, 0.6)[0], 161002, r"must be \[1\]"),
        ("q", row(*Q).half(), 161002, "float32"),
        ("q", row(*Q)[:, :5], 161002, "shape of logits"),
        ("q", row(*Q)[0], 161002, "shape of logits"),
    ],
)
def test_a_wrong_operand_is_named_with_the_rule_and_the_operators_status(
    argument: str, value: Tensor | None, status: int, rule: str
) -> None:
    operands = {**VALID, argument: value}

    with pytest.raises(InvalidOperand, match=f"^{argument}: .*{rule}") as caught:
        top_k_top_p_sample(*operands.values())  # pyright: ignore[reportArgumentType]  # the point

    assert isinstance(caught.value, ValueError)
    assert caught.value.argument == argument
    assert caught.value.status == status
    assert str(status) in str(caught.value)


@pytest.mark.parametrize("guess", [0, -1, True])
def test_the_guess_must_be_positive(guess: int) -> None:
    with pytest.raises(InvalidOperand, match=r"^top_k_guess: .*1 or more"):
        top_k_top_p_sample(log_p(), of(3), row(0.6)[0], top_k_guess=guess)


@pytest.mark.parametrize("eps", [-1e-8, math.nan, math.inf])
def test_eps_must_be_a_number_that_is_not_negative(eps: float) -> None:
    with pytest.raises(InvalidOperand, match=r"^eps: .*0 or more"):
        top_k_top_p_sample(log_p(), of(3), row(0.6)[0], eps=eps)
