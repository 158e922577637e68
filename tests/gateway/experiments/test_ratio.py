"""A broken split is noticed soon, and a sound one is left in peace."""

from math import exp, lgamma, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.experiments.ratio import CONCENTRATION, ArmCount, EpochCounts, ratio


def epoch(number: int, *arms: tuple[float, int]) -> EpochCounts:
    return EpochCounts(
        epoch=number,
        arms=tuple(
            ArmCount(name=f"arm-{place}", weight=weight, units=units)
            for place, (weight, units) in enumerate(arms)
        ),
    )


def test_51_to_49_instead_of_50_to_50_is_flagged_by_60000_units() -> None:
    found = ratio([epoch(1, (50, 30_600), (50, 29_400))])

    assert found.mismatch
    assert found.p < 1e-4


def test_half_and_half_is_not_flagged_at_any_size() -> None:
    assert not any(
        ratio([epoch(1, (50, units), (50, units))]).mismatch for units in (0, 10, 10**4, 10**7)
    )


def test_three_arms_by_their_own_weights_are_sound_and_by_others_are_not() -> None:
    assert not ratio([epoch(1, (10, 10_050), (20, 19_980), (70, 69_970))]).mismatch
    assert ratio([epoch(1, (20, 10_050), (20, 19_980), (60, 69_970))]).mismatch


def test_the_evidence_is_the_product_of_what_was_foreseen_unit_by_unit() -> None:
    """The mixture's prediction of each unit, one after the other, over the weights' own."""
    seen, foreseen = [0, 0, 0], 0.0
    shares = [0.5, 0.3, 0.2]
    for arm in [0, 0, 1, 2, 0, 1, 1, 0, 2, 2, 2, 0]:
        prediction = (CONCENTRATION * shares[arm] + seen[arm]) / (CONCENTRATION + sum(seen))
        foreseen += log(prediction / shares[arm])
        seen[arm] += 1

    found = ratio([epoch(1, (5, seen[0]), (3, seen[1]), (2, seen[2]))])

    assert found.epochs[0].evidence == pytest.approx(foreseen, abs=1e-9)


def test_epochs_add_their_evidence_each_by_its_own_weights() -> None:
    first, second = epoch(1, (90, 18_100), (10, 1_900)), epoch(2, (50, 15_250), (50, 14_750))

    together = ratio([first, second])

    alone = [ratio([first]).epochs[0].evidence, ratio([second]).epochs[0].evidence]
    assert [part.evidence for part in together.epochs] == alone
    assert together.p == pytest.approx(min(1.0, exp(-sum(alone))))


def test_pooled_counts_that_look_wrong_are_sound_when_every_epoch_is() -> None:
    ramp = [epoch(1, (90, 9_000), (10, 1_000)), epoch(2, (50, 5_000), (50, 5_000))]
    pooled = epoch(1, (50, 14_000), (50, 6_000))

    assert not ratio(ramp).mismatch
    assert ratio([pooled]).mismatch


def test_a_unit_in_a_variant_of_weight_zero_is_a_mismatch() -> None:
    assert ratio([epoch(1, (50, 3), (0, 1))]).mismatch
    assert not ratio([epoch(1, (50, 3), (0, 0))]).mismatch


def test_an_epoch_without_weights_is_an_error() -> None:
    with pytest.raises(ValueError, match="epoch 7: no variant has a weight above 0"):
        ratio([epoch(7, (0, 0), (0, 0))])


@given(st.lists(st.tuples(st.floats(0.1, 100), st.integers(0, 10**6)), min_size=1, max_size=5))
def test_the_p_value_is_a_probability_whatever_the_counts(arms: list[tuple[float, int]]) -> None:
    assert 0 <= ratio([epoch(1, *arms)]).p <= 1


def flagged(share: float, *, runs: int, seed: int) -> tuple[float, float]:
    """The part of runs flagged within 60,000 units, and the median units at the flag.

    Peeked at after every 100 units, with the same formula on arrays.
    """
    rng = np.random.default_rng(seed)
    looks = np.arange(100, 60_001, 100)
    half = np.array([lgamma(CONCENTRATION / 2 + units) for units in range(60_001)])
    whole = np.array([lgamma(CONCENTRATION + units) for units in looks])
    start = lgamma(CONCENTRATION) - 2 * lgamma(CONCENTRATION / 2)
    firsts: list[int] = []
    for _ in range(runs):
        one = np.cumsum(rng.binomial(100, share, len(looks)))
        evidence = start - whole + half[one] + half[looks - one] + looks * log(2)
        over = np.flatnonzero(evidence > log(1000))
        if len(over):
            firsts.append(int(looks[over[0]]))
    return len(firsts) / runs, float(np.median(firsts)) if firsts else 0.0


def test_continuous_peeking_accuses_one_sound_split_in_a_thousand_at_most() -> None:
    accused, _ = flagged(0.5, runs=4_000, seed=21)

    assert accused <= 0.001


def test_simulated_splits_of_51_to_49_are_mostly_flagged_by_60000_units() -> None:
    found, median = flagged(0.51, runs=500, seed=22)

    assert found > 0.75
    assert median < 45_000
