"""Policies are pure functions, so their tests are arithmetic."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.routing.policies import POLICIES

weighted = POLICIES["weighted"]
WEIGHTS = st.lists(st.integers(0, 100), min_size=1, max_size=6)
DRAWS = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize("name", sorted(POLICIES))
@given(weights=WEIGHTS, draw=DRAWS)
def test_every_policy_names_each_backend_once(
    name: str, weights: Sequence[float], draw: float
) -> None:
    assert sorted(POLICIES[name](weights, draw)) == list(range(len(weights)))


@given(weights=WEIGHTS, draw=DRAWS)
def test_a_backend_of_weight_zero_comes_after_all_that_have_weight(
    weights: Sequence[float], draw: float
) -> None:
    order = weighted(weights, draw)

    seen_zero = False
    for index in order:
        assert not (seen_zero and weights[index] > 0)
        seen_zero = seen_zero or weights[index] == 0


def test_in_order_ignores_weights_and_draw() -> None:
    assert POLICIES["in_order"]([0, 5, 1], 0.99) == [0, 1, 2]


def test_the_first_choice_has_exactly_its_weight_share_of_evenly_spaced_draws() -> None:
    draws = [Fraction(step, 1000) for step in range(1000)]

    firsts = Counter(weighted([90, 10], float(draw))[0] for draw in draws)

    assert firsts == {0: 900, 1: 100}


def test_the_second_choice_follows_the_weights_of_those_left() -> None:
    draws = [(step + 0.5) / 60_000 for step in range(60_000)]

    pairs = Counter(tuple(weighted([1, 2, 3], draw)[:2]) for draw in draws)

    assert pairs[(2, 1)] == pytest.approx(60_000 * (3 / 6) * (2 / 3), abs=2)
    assert pairs[(0, 2)] == pytest.approx(60_000 * (1 / 6) * (3 / 5), abs=2)


def test_a_draw_next_to_one_still_chooses_someone() -> None:
    assert weighted([0.1] * 3, 1 - 2**-53)[0] == 2
