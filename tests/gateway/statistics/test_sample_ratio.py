"""A sample ratio mismatch is detected soon, and a correct split raises no alarm."""

from functools import cache
from math import comb, exp, log, sqrt

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.sample_ratio import (
    CONCENTRATION,
    NEAR,
    OFF,
    ArmCount,
    EpochCounts,
    sample_ratio_test,
)


def epoch(number: int, *arms: tuple[float, int]) -> EpochCounts:
    return EpochCounts(
        epoch=number,
        arms=tuple(
            ArmCount(name=f"arm-{place}", weight=weight, units=units)
            for place, (weight, units) in enumerate(arms)
        ),
    )


def test_51_to_49_instead_of_50_to_50_is_flagged_by_60000_units() -> None:
    found = sample_ratio_test([epoch(1, (50, 30_600), (50, 29_400))])

    assert found.mismatch
    assert found.p < 1e-4


@pytest.mark.parametrize(
    "arms",
    [
        ((1, 20_600), (1, 19_700), (1, 19_700)),
        ((1, 14_400), (1, 15_200), (1, 15_200), (1, 15_200)),
        ((90, 53_640), (10, 6_360)),
        ((90, 54_360), (10, 5_640)),
    ],
)
def test_one_arm_that_is_off_by_as_much_is_flagged_for_any_others(
    arms: tuple[tuple[float, int], ...],
) -> None:
    assert sample_ratio_test([epoch(1, *arms)]).mismatch


def test_half_and_half_is_not_flagged_at_any_size() -> None:
    assert not any(
        sample_ratio_test([epoch(1, (50, units), (50, units))]).mismatch
        for units in (0, 10, 10**4, 10**7)
    )


def test_three_arms_by_their_own_weights_are_sound_and_by_others_are_not() -> None:
    assert not sample_ratio_test([epoch(1, (10, 10_050), (20, 19_980), (70, 69_970))]).mismatch
    assert sample_ratio_test([epoch(1, (20, 10_050), (20, 19_980), (60, 69_970))]).mismatch


def test_the_evidence_is_the_product_of_what_was_foreseen_unit_by_unit() -> None:
    """By each part of the mixture, one unit after the other, over the weights' own."""
    shares = [0.5, 0.3, 0.2]
    drawn = [0, 0, 1, 2, 0, 1, 1, 0, 2, 2, 2, 0] * 100
    anywhere = 0.0
    for place, arm in enumerate(drawn):
        seen = drawn[:place].count(arm)
        prediction = (CONCENTRATION * shares[arm] + seen) / (CONCENTRATION + place)
        anywhere += log(prediction / shares[arm])
    near: list[float] = []
    for off, share in enumerate(shares):
        for way in (1, -1):
            other = share + way * OFF * sqrt(share * (1 - share))
            said = [(1 - other) / (1 - share)] * 3
            said[off] = other / share
            near.append(sum(log(said[arm]) for arm in drawn))
    foreseen = log((1 - NEAR) * exp(anywhere) + NEAR * sum(map(exp, near)) / 6)

    found = sample_ratio_test(
        [epoch(1, *((10 * share, drawn.count(arm)) for arm, share in enumerate(shares)))]
    )

    assert found.epochs[0].evidence == pytest.approx(foreseen, abs=1e-9)


def test_epochs_add_their_evidence_each_by_its_own_weights() -> None:
    first, second = epoch(1, (90, 18_100), (10, 1_900)), epoch(2, (50, 15_250), (50, 14_750))

    together = sample_ratio_test([first, second])

    alone = [
        sample_ratio_test([first]).epochs[0].evidence,
        sample_ratio_test([second]).epochs[0].evidence,
    ]
    assert [part.evidence for part in together.epochs] == alone
    assert together.p == pytest.approx(min(1.0, exp(-sum(alone))))


def test_pooled_counts_that_look_wrong_are_sound_when_every_epoch_is() -> None:
    ramp = [epoch(1, (90, 9_000), (10, 1_000)), epoch(2, (50, 5_000), (50, 5_000))]
    pooled = epoch(1, (50, 14_000), (50, 6_000))

    assert not sample_ratio_test(ramp).mismatch
    assert sample_ratio_test([pooled]).mismatch


def test_a_unit_in_a_variant_of_weight_zero_is_a_mismatch() -> None:
    assert sample_ratio_test([epoch(1, (50, 3), (0, 1))]).mismatch
    assert not sample_ratio_test([epoch(1, (50, 3), (0, 0))]).mismatch


def test_an_epoch_without_weights_is_an_error() -> None:
    with pytest.raises(ValueError, match="epoch 7: no variant has a weight above 0"):
        sample_ratio_test([epoch(7, (0, 0), (0, 0))])


@given(st.lists(st.tuples(st.floats(0.1, 100), st.integers(0, 10**6)), min_size=1, max_size=5))
def test_the_p_value_is_a_probability_for_any_counts(arms: list[tuple[float, int]]) -> None:
    assert 0 <= sample_ratio_test([epoch(1, *arms)]).p <= 1


@given(
    st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=3),
    st.integers(0, 2),
)
def test_one_unit_more_is_foreseen_with_probability_one(weights: list[float], seen: int) -> None:
    """What makes a martingale of the evidence, and an error of the alarm so rare."""
    total = sum(weights)
    counts = [seen + place for place in range(len(weights))]

    before = sample_ratio_test([epoch(1, *zip(weights, counts, strict=True))]).epochs[0].evidence
    foreseen = 0.0
    for arm, weight in enumerate(weights):
        more = [count + (place == arm) for place, count in enumerate(counts)]
        after = sample_ratio_test([epoch(1, *zip(weights, more, strict=True))]).epochs[0].evidence
        foreseen += weight / total * exp(after - before)

    assert foreseen == pytest.approx(1.0, rel=1e-6)


UNITS, APART = 60_000, 100
"""How far streams are followed, and how many units after each other they are looked at."""


@cache
def least_flagged(units: int) -> int:
    """In one of two even arms, of so many units: the fewest beyond half that are a mismatch."""

    def mismatch(one: int) -> bool:
        return sample_ratio_test([epoch(1, (50, one), (50, units - one))]).mismatch

    sound, broken = units // 2, units + 1
    while broken - sound > 1:
        middle = (sound + broken) // 2
        sound, broken = (sound, middle) if mismatch(middle) else (middle, broken)
    return broken


def flagged(share: float) -> npt.NDArray[np.float64]:
    """The probability of having been flagged by each look, exactly: no stream is simulated.

    Of all streams not flagged so far the distribution is kept over the units of one arm; each look
    adds a binomial of APART units and takes away what lies at or beyond either boundary.
    """
    step = np.array([comb(APART, k) * share**k * (1 - share) ** (APART - k) for k in range(101)])
    first, going = 0, np.ones(1)
    found: list[float] = []
    for units in range(APART, UNITS + 1, APART):
        going = np.convolve(going, step)
        boundary = least_flagged(units)
        low, high = max(units - boundary + 1 - first, 0), max(boundary - first, 0)
        first, going = first + low, going[low:high]
        found.append(1.0 - float(going.sum()))
    return np.array(found)


def test_continuous_peeking_accuses_one_sound_split_in_a_thousand_at_most() -> None:
    assert 0.0005 < flagged(0.5)[-1] < 0.001


def test_seven_in_eight_splits_of_51_to_49_are_flagged_by_60000_units() -> None:
    """88.1 %: 95 % are all that a single look at the end could find, and it would have no other."""
    found = flagged(0.51)

    assert found[-1] > 0.88
    assert np.flatnonzero(found > 0.5)[0] * APART < 37_000
