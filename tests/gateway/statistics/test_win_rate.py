"""The win rate of judged pairs, and what it says of the judge: order, length, people."""

import os
from math import sqrt

import numpy as np
import pytest

from strowger_gateway.gateway.statistics.betting import betting_interval
from strowger_gateway.gateway.statistics.win_rate import JudgedPair, WinRate, win_rate

TRIALS = int(os.environ.get("STROWGER_TRIALS", "1000"))


def judged(
    rng: np.random.Generator,
    pairs: int,
    *,
    win: float = 0.5,
    first: float = 0.0,
    longer: float = 0.0,
    treatment_longer: float = 0.5,
    people: int = 0,
    people_win: float = 0.5,
    per_unit: int = 1,
) -> list[JudgedPair]:
    """Pairs of a judge that picks the first answer in a share `first` of its verdicts, and the
    longer one in a share `longer`, else the better one. people: the first pairs that they judge.
    """
    found: list[JudgedPair] = []
    for place in range(pairs):
        better = float(rng.random() < win)
        is_longer = rng.random() < treatment_longer
        length = abs(rng.normal(0.4, 0.2)) * (1 if is_longer else -1)
        verdicts: list[float] = []
        for shown in (1.0, 0.0):  # treatment's answer first, then second
            drawn = rng.random()
            verdict = shown if drawn < first else better
            verdicts.append(float(is_longer) if first <= drawn < first + longer else verdict)
        found.append(
            JudgedPair(
                unit=f"u{place // per_unit}",
                place=place,
                score=sum(verdicts) / 2,
                first=verdicts[0],
                second=verdicts[1],
                length=length,
                human=float(rng.random() < people_win) if place < people else None,
            )
        )
    return found


def test_without_pairs_nothing_is_known() -> None:
    found = win_rate([])

    assert (found.finding, found.low, found.high, found.pairs) == ("undecided", 0.0, 1.0, 0)
    assert found.sentence == "no pair is judged yet"


def test_a_treatment_that_wins_sixty_percent_of_five_hundred_pairs_is_preferred() -> None:
    pairs = [JudgedPair(unit=f"u{n}", place=n, score=1.0 if n % 5 < 3 else 0.0) for n in range(500)]
    found = win_rate(pairs, control="old", treatment="new")

    assert (found.wins, found.ties, found.losses) == (300, 0, 200)
    assert found.rate == pytest.approx(0.6)
    assert 0.5 < found.low < 0.6 < found.high
    assert found.finding == "better"
    assert found.sentence.startswith("new is preferred to old: it wins 60.0 % (5")


def test_arms_that_change_places_are_judged_the_other_way_round() -> None:
    rng = np.random.default_rng(1)
    pairs = judged(rng, 300, win=0.65)
    mirrored = [JudgedPair(unit=one.unit, place=one.place, score=1 - one.score) for one in pairs]
    found, other = win_rate(pairs), win_rate(mirrored)

    assert (found.finding, other.finding) == ("better", "worse")
    assert 1 - other.low == pytest.approx(found.high)


def test_one_unit_with_most_pairs_counts_once() -> None:
    """A thousand prompts of one user do not prove what fifty users do not show."""
    honest = [JudgedPair(unit=f"u{n}", place=n, score=float(n % 2)) for n in range(50)]
    busy = [JudgedPair(unit="busy", place=50 + n, score=1.0) for n in range(1_000)]
    found = win_rate([*honest, *busy])

    assert (found.units, found.pairs) == (51, 1_050)
    assert found.rate == pytest.approx(26 / 51)
    assert found.finding == "undecided"


def test_a_margin_finds_answers_alike() -> None:
    ties = [JudgedPair(unit=f"u{n}", place=n, score=0.5) for n in range(200)]

    assert win_rate(ties, smallest=0.05).finding == "alike"
    assert "by more than 5 points" in win_rate(ties, smallest=0.05).sentence


def test_a_judge_that_prefers_the_first_answer_is_shown_to_and_decides_nothing() -> None:
    found = win_rate(judged(np.random.default_rng(2), 400, first=0.5))
    order = found.order

    assert order is not None
    assert order.shown
    assert order.first == pytest.approx(0.75, abs=0.05)
    assert order.consistent < 0.6
    assert found.finding == "undecided"


def test_a_judge_without_a_bias_is_shown_to_have_none() -> None:
    found = win_rate(judged(np.random.default_rng(3), 400, win=0.6))

    assert found.order is not None
    assert found.length is not None
    assert not found.order.shown
    assert not found.length.shown
    assert found.order.consistent == 1.0


def test_a_treatment_that_is_only_longer_wins_half_at_equal_lengths() -> None:
    """The judge picks the longer answer in half of its verdicts; treatment's is longer in 80 %."""
    pairs = judged(np.random.default_rng(4), 2_000, longer=0.5, treatment_longer=0.8)
    length = win_rate(pairs).length

    assert length is not None
    assert length.shown
    assert length.treatment_longer == pytest.approx(0.8, abs=0.05)
    assert win_rate(pairs).rate == pytest.approx(0.65, abs=0.04)
    assert length.slope is not None
    assert length.slope > 0
    assert length.equal == pytest.approx(0.5, abs=0.08)


def test_answers_of_equal_lengths_say_nothing_of_length() -> None:
    pairs = [JudgedPair(unit=f"u{n}", place=n, score=1.0, length=0.0) for n in range(50)]

    assert win_rate(pairs).length is None


def test_a_judge_who_always_prefers_the_longer_answer_has_a_finite_slope() -> None:
    pairs = [
        JudgedPair(unit=f"u{n}", place=n, score=float(n % 2), length=0.5 if n % 2 else -0.5)
        for n in range(200)
    ]
    length = win_rate(pairs).length

    assert length is not None
    assert length.slope is not None
    assert 5 < length.slope < 100
    assert length.longer == 1.0
    assert length.equal == pytest.approx(0.5, abs=0.02)


def test_people_who_disagree_with_the_judge_correct_it() -> None:
    """The judge prefers treatment in 80 %, people in 30 %."""
    rng = np.random.default_rng(5)
    found = win_rate(judged(rng, 800, win=0.8, people=400, people_win=0.3))
    calibration = found.calibration

    assert calibration is not None
    assert calibration.shown
    assert calibration.correction == pytest.approx(-0.5, abs=0.08)
    assert calibration.corrected_low < 0.3 < calibration.corrected_high < 0.5
    assert found.low > 0.5
    assert found.finding == "worse"
    assert "corrected by people's votes" in found.sentence


def test_people_who_agree_leave_the_judge_alone() -> None:
    pairs = judged(np.random.default_rng(6), 500, win=0.6)
    agreed = [
        JudgedPair(
            unit=one.unit,
            place=one.place,
            score=one.score,
            human=one.score if one.place < 200 else None,
        )
        for one in pairs
    ]
    found = win_rate(agreed)

    assert found.calibration is not None
    assert (found.calibration.agreement, found.calibration.correction) == (1.0, 0.0)
    assert not found.calibration.shown
    assert found.finding == "better"


def outside(found: WinRate, truth: float) -> bool:
    return not found.low <= truth <= found.high


def people_missed(trials: int, *, units: int) -> float:
    """The share of runs in which the corrected interval misses people's rate at any of ten looks.

    The judge wins 70 % for treatment, people 40 %, on two pairs a unit of which they vote on half.
    """
    misses = 0
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        pairs = judged(rng, units * 2, win=0.7, people=units, people_win=0.4, per_unit=2)
        looks = range(units // 5, units * 2 + 1, units // 5)
        found = (win_rate(pairs[: look - look % 2]).calibration for look in looks)
        misses += any(
            one is not None and not one.corrected_low <= 0.4 <= one.corrected_high for one in found
        )
    return misses / trials


def test_corrected_intervals_hold_what_people_prefer() -> None:
    assert people_missed(40, units=100) <= 0.05 + 3.1 * sqrt(0.05 * 0.95 / 40)


@pytest.mark.nightly
def test_corrected_intervals_hold_their_level() -> None:
    trials = max(TRIALS // 2, 1)
    rate = people_missed(trials, units=300)
    print(f"\nwin rate, corrected by people: missed {100 * rate:.1f} %")

    assert rate <= 0.05 + 3.1 * sqrt(0.05 * 0.95 / trials)


def test_the_figures_follow_from_the_rows() -> None:
    """By docs/experiments-statistics.md: the mean of the units' means, and its interval."""
    pairs = judged(np.random.default_rng(7), 90, win=0.7, first=0.1, per_unit=3)
    found = win_rate(pairs)
    means = [sum(one.score for one in pairs[n : n + 3]) / 3 for n in range(0, 90, 3)]
    expected = betting_interval(means)

    assert found.rate == pytest.approx(sum(means) / 30)
    assert (found.low, found.high, found.p) == (expected.low, expected.high, expected.p)
