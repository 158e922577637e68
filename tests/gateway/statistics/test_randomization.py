"""The test by the assignment, against all subsets and docs/experiments-statistics.md."""

from itertools import combinations
from math import comb, log, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.randomization import (
    UnitErrors,
    fewest_units,
    most_added,
    p_value,
    smallest_seen,
)

ALPHA = 1e-4


@st.composite
def units(draw: st.DrawFn, most: int = 4) -> list[UnitErrors]:
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=most))
    return [UnitErrors(requests=n, errors=draw(st.integers(0, n))) for n in sizes]


def binomial_tail(n: int, p: float, least: int) -> float:
    return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(least, n + 1))


def by_the_document(
    treated: list[UnitErrors], others: list[UnitErrors], worse_by: float, alpha: float
) -> float:
    def weight(unit: UnitErrors) -> float:
        return 1 / (1 + 0.05 * (unit.requests - 1))

    gamma = alpha / 8
    mean = sum(weight(one) * one.requests * worse_by for one in treated)
    spread = sum(weight(one) ** 2 * one.requests * worse_by for one in treated)
    third = max(map(weight, treated)) * log(1 / gamma) / 3
    bernstein = mean + third + sqrt(third**2 + 2 * spread * log(1 / gamma))
    pairs: list[tuple[float, float]] = []
    for one in treated:
        most = next(
            k
            for k in range(one.requests + 1)
            if binomial_tail(one.requests, worse_by, k + 1) <= gamma / len(treated)
        )
        shown = weight(one) * one.errors
        pairs.append((shown, weight(one) * max(one.errors - most, 0)))
    reach = sum(shown for shown, _ in pairs) - bernstein, sum(sure for _, sure in pairs)
    pairs += [(weight(one) * one.errors, weight(one) * one.errors) for one in others]
    subsets = list(combinations(pairs, len(treated)))
    beating = sum(
        all(sum(one[place] for one in subset) >= reach[place] - 1e-7 for place in (0, 1))
        for subset in subsets
    )
    return min(1.0, beating / len(subsets) + alpha / 4)


@given(units(), units(), st.sampled_from([0.01, 0.05, 0.2]), st.sampled_from([0.05, 0.3, 0.9]))
def test_p_is_that_of_the_document_where_it_decides(
    treated: list[UnitErrors], others: list[UnitErrors], worse_by: float, alpha: float
) -> None:
    found = p_value(treated, others, worse_by=worse_by, alpha=alpha, seed="")
    expected = by_the_document(treated, others, worse_by, alpha)

    assert (found <= alpha) == (expected <= alpha)
    if found <= alpha:
        assert found == pytest.approx(expected)


@given(units(), units(), st.integers())
def test_the_order_of_units_does_not_matter(
    treated: list[UnitErrors], others: list[UnitErrors], seed: int
) -> None:
    mixed = Random(seed).sample(treated, len(treated)), Random(seed).sample(others, len(others))

    assert p_value(treated, others, worse_by=0.02, alpha=0.1, seed="") == p_value(
        *mixed, worse_by=0.02, alpha=0.1, seed=""
    )


def failing(units: int, requests: int, errors: int) -> list[UnitErrors]:
    return [UnitErrors(requests=requests, errors=errors)] * units


def test_a_dead_arm_of_3_in_60_keys_is_one_of_all_subsets() -> None:
    others = [*failing(7, 10, 1), *failing(50, 10, 0)]

    p = p_value(failing(3, 10, 10), others, worse_by=0.02, alpha=ALPHA, seed="")

    assert p == pytest.approx(1 / comb(60, 3) + ALPHA / 4)
    assert p <= ALPHA


def test_a_drawn_sample_decides_as_all_subsets_would() -> None:
    dead = p_value(failing(10, 12, 12), failing(40, 12, 0), worse_by=0.02, alpha=ALPHA, seed="a")
    same = p_value(failing(10, 12, 12), failing(40, 12, 0), worse_by=0.02, alpha=ALPHA, seed="a")
    alike = p_value(failing(10, 12, 1), failing(40, 12, 1), worse_by=0.02, alpha=ALPHA, seed="a")

    assert dead == same <= ALPHA
    assert alike > 0.1


def test_a_treatment_of_nearly_all_units_is_tested_by_those_in_control() -> None:
    p = p_value(failing(57, 10, 10), failing(3, 10, 0), worse_by=0.02, alpha=ALPHA, seed="")

    assert p == pytest.approx(1 / comb(60, 3) + ALPHA / 4)


def test_one_giant_hides_no_dead_arm_and_makes_none() -> None:
    giant = UnitErrors(requests=100_000, errors=1_000)
    hidden = p_value(
        failing(3, 10, 10), [giant, *failing(56, 10, 0)], worse_by=0.02, alpha=ALPHA, seed=""
    )
    broken = UnitErrors(requests=100_000, errors=90_000)
    alone = p_value(
        [broken, *failing(2, 10, 0)], failing(57, 10, 0), worse_by=0.02, alpha=ALPHA, seed=""
    )

    assert hidden <= ALPHA
    assert alone > ALPHA


def test_no_units_of_an_arm_prove_nothing() -> None:
    assert p_value([], failing(3, 1, 1), worse_by=0.02, alpha=ALPHA, seed="") == 1
    assert p_value(failing(3, 1, 1), [], worse_by=0.02, alpha=ALPHA, seed="") == 1


@given(st.integers(1, 60), st.sampled_from([0.01, 0.05, 0.3]), st.sampled_from([0.1, 1e-3, 1e-6]))
def test_the_bound_on_added_failures_is_the_binomial_quantile(
    requests: int, worse_by: float, gamma: float
) -> None:
    most = most_added(requests, worse_by, gamma)

    assert binomial_tail(requests, worse_by, most + 1) <= gamma * (1 + 1e-6) + 1e-12
    assert most == 0 or binomial_tail(requests, worse_by, most) >= gamma * (1 - 1e-6) - 1e-12


def test_the_documented_numbers_of_units_are_needed() -> None:
    assert [fewest_units(share, ALPHA) for share in (0.5, 0.1, 0.05, 0.01)] == [17, 40, 60, 200]


@pytest.mark.parametrize("share", [0.0, 1e-300, 1e-9, 1 - 1e-9, 1.0])
def test_however_uneven_the_shares_are_a_number_of_units_is_enough(share: float) -> None:
    assert fewest_units(share, ALPHA) >= 13_334


@pytest.mark.parametrize(
    ("treated", "others", "requests"), [(3, 57, 12), (10, 10, 15), (6, 60, 80)]
)
def test_what_is_said_to_be_seen_is_seen(treated: int, others: int, requests: int) -> None:
    calm = failing(others, requests, 0)
    part = smallest_seen(failing(treated, requests, 0), calm, worse_by=0.02, alpha=ALPHA)

    assert part is not None
    failed = failing(treated, requests, round(part * requests + 0.4999))
    assert p_value(failed, calm, worse_by=0.02, alpha=ALPHA, seed="") <= ALPHA


def test_what_no_failure_could_show_is_said_to_be_unseen() -> None:
    assert smallest_seen(failing(2, 50, 0), failing(10, 50, 0), worse_by=0.02, alpha=ALPHA) is None
    assert smallest_seen(failing(3, 1, 0), failing(57, 1, 0), worse_by=0.02, alpha=ALPHA) is None


def test_what_can_be_seen_is_known_for_any_number_of_units() -> None:
    """One busy unit among a thousand: the score test is not for them."""
    treated = [UnitErrors(requests=5_000, errors=0), *failing(500, 1, 0)]

    assert smallest_seen(treated, failing(500, 1, 0), worse_by=0.02, alpha=ALPHA) is not None
    assert smallest_seen(failing(900, 2, 0), failing(900, 2, 2), worse_by=0.9, alpha=ALPHA) is None
