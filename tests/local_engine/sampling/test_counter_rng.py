"""Counter-based noise: bit-exact SplitMix64, and numbers with the documented distributions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.local_engine.sampling.counter_rng import (
    derive_seed,
    exponentials,
    fold_seed,
    row_keys,
    uniforms,
)
from tests.local_engine.tensor_values import numbers

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SEEDS = st.integers(-(2**63), 2**64 - 1)
POSITIONS = st.integers(0, 1 << 20)


def mix(x: int) -> int:
    """SplitMix64's finaliser on Python's integers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def unit(x: int) -> float:
    return ((x >> 11) + 0.5) * 2.0**-53


def key_of(seed: int, position: int) -> torch.Tensor:
    return row_keys(torch.tensor([[fold_seed(seed)]]), torch.tensor([position]))


def test_the_finaliser_is_splitmix64s() -> None:
    """The first outputs of the reference generator from state 0."""
    first = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)

    assert tuple(mix((GOLDEN * (i + 1)) & MASK) for i in range(3)) == first


@settings(deadline=None)
@given(SEEDS, POSITIONS, st.lists(st.integers(0, 1 << 20), min_size=1, max_size=9))
def test_noise_is_a_function_of_only_seed_position_and_token(
    seed: int, position: int, ids: list[int]
) -> None:
    key = mix((seed + position * GOLDEN) & MASK)

    drawn = exponentials(key_of(seed, position), torch.tensor([ids]))

    expected = [-math.log(unit(mix((key + (token + 1) * GOLDEN) & MASK))) for token in ids]
    assert numbers(drawn) == pytest.approx(expected, rel=1e-6)


@settings(deadline=None)
@given(SEEDS, POSITIONS)
def test_a_rows_own_number_comes_from_a_stream_that_no_token_uses(seed: int, position: int) -> None:
    drawn = uniforms(key_of(seed, position))

    assert numbers(drawn) == [unit(mix(mix((seed + position * GOLDEN) & MASK)))]


def test_drawing_does_not_change_keys_and_ids() -> None:
    keys, ids = row_keys(torch.arange(4).view(4, 1), torch.tensor(3)), torch.arange(12).view(4, 3)
    before = keys.clone(), ids.clone()

    exponentials(keys, ids)
    uniforms(keys)

    assert torch.equal(keys, before[0])
    assert torch.equal(ids, before[1])


def test_the_numbers_are_exponential() -> None:
    keys = row_keys(torch.arange(200).view(200, 1), torch.tensor(0))

    drawn = exponentials(keys, torch.arange(1000).expand(200, 1000)).flatten().to(torch.float64)

    assert float(drawn.mean()) == pytest.approx(1.0, abs=0.01)
    assert float(drawn.var()) == pytest.approx(1.0, abs=0.03)
    ranks = torch.arange(1, drawn.numel() + 1) / drawn.numel()
    distance = (1 - (-drawn.sort().values).exp() - ranks).abs().max()
    assert float(distance) < 2.2 / math.sqrt(drawn.numel())  # Kolmogorov-Smirnov, 1 in 10,000
    assert float(drawn.min()) > 0


@pytest.mark.parametrize("lag", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_neighbouring_seeds_positions_and_tokens_are_unrelated(lag: tuple[int, int, int]) -> None:
    seed, position, token = lag
    seeds, tokens = torch.arange(300).view(300, 1), torch.arange(300).expand(300, 300)

    here = exponentials(row_keys(seeds, torch.tensor(7)), tokens).flatten()
    there = exponentials(row_keys(seeds + seed, torch.tensor(7 + position)), tokens + token)

    together = torch.stack((here, there.flatten()))
    assert abs(float(torch.corrcoef(together)[0, 1])) < 4 / math.sqrt(here.numel())


@pytest.mark.parametrize(
    ("seed", "folded"),
    [(0, 0), (5, 5), (-1, -1), (2**64 - 1, -1), (2**63, -(2**63)), (2**63 - 1, 2**63 - 1)],
)
def test_a_seed_keeps_its_64_bits(seed: int, folded: int) -> None:
    assert fold_seed(seed) == folded


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_of_more_bits_is_refused(seed: int) -> None:
    with pytest.raises(ValueError, match="seed"):
        fold_seed(seed)


def test_the_answers_of_one_request_get_their_own_seeds() -> None:
    seeds = {derive_seed(42, index) for index in range(1000)} | {
        derive_seed(43, index) for index in range(1000)
    }

    assert derive_seed(42, 0) == 42
    assert derive_seed(2**64 - 1, 3) == derive_seed(-1, 3)
    assert len(seeds) == 2000
    assert all(-(2**63) <= seed < 2**63 for seed in seeds)
