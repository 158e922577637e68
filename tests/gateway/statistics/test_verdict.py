"""The verdict of a report, with the most important finding first."""

from math import exp, log, log1p

import numpy as np
import pytest

from strowger_gateway.gateway.statistics.formatting import (
    amount,
    change,
    figure,
    rounded,
    signed,
)
from strowger_gateway.gateway.statistics.metrics import BUILT_IN, LEAST, Metric
from strowger_gateway.gateway.statistics.outcomes import Outcomes, UnitRow, summarised
from strowger_gateway.gateway.statistics.sample_ratio import ArmCount, EpochCounts
from strowger_gateway.gateway.statistics.verdict import (
    HarmBound,
    ReportInput,
    Verdict,
    verdict_of,
)

VOTES = Metric(name="thumbs_up", bounds=(0.0, 1.0))


def votes(**yes_of: tuple[int, int]) -> Outcomes:
    """One vote a unit: by variant how many said yes, of how many."""
    return summarised(
        UnitRow(unit=f"{variant}-{n}", epoch=1, variant=variant, count=1, total=float(n < yes))
        for variant, (yes, units) in yes_of.items()
        for n in range(units)
    )


def times(**center_of: float) -> Outcomes:
    """Latencies of 400 units by variant, around the given milliseconds."""
    metric = BUILT_IN["latency_ms"]
    rng = np.random.default_rng(3)
    return summarised(
        UnitRow(
            unit=f"{variant}-{n}",
            epoch=1,
            variant=variant,
            count=1,
            total=metric.scaled(float(center * rng.lognormal(0, 0.3))),
        )
        for variant, center in center_of.items()
        for n in range(400)
    )


def judged(
    outcomes: Outcomes,
    *,
    treatments: tuple[str, ...] = ("treatment",),
    smallest: float | None = None,
    split: tuple[int, int] = (1_000, 1_000),
    errors: Outcomes | None = None,
    worse_by: float = 0.02,
    aa: bool = False,
) -> Verdict:
    counts = EpochCounts(
        epoch=1,
        arms=(
            ArmCount(name="control", weight=50, units=split[0]),
            ArmCount(name="treatment", weight=50, units=split[1]),
        ),
    )
    return verdict_of(
        ReportInput(
            control="control",
            treatments=treatments,
            primary=VOTES,
            outcomes={"thumbs_up": outcomes, "error": errors or Outcomes()},
            counts=(counts,),
            harm_limits=(HarmBound(metric=BUILT_IN["error"], worse_by=worse_by),),
            planned=1_000,
            smallest=smallest,
            aa=aa,
        )
    )


def test_a_better_treatment_is_called_better_with_its_interval() -> None:
    verdict = judged(votes(control=(400, 2_000), treatment=(700, 2_000)))

    assert verdict.kind == "better"
    assert verdict.sentence == (
        "treatment is better than control: thumbs_up +0.15 (+0.108 to +0.192)"
    )
    assert verdict.arms[0].effect.p < 1e-9


def test_a_worse_treatment_is_called_worse() -> None:
    verdict = judged(votes(control=(700, 2_000), treatment=(400, 2_000)))

    assert verdict.kind == "worse"
    assert verdict.sentence.startswith("treatment is worse than control: thumbs_up −0.15")


def test_an_interval_within_what_matters_says_no_difference_larger_than_it() -> None:
    verdict = judged(votes(control=(4_000, 20_000), treatment=(4_010, 20_000)), smallest=0.02)

    assert verdict.kind == "alike"
    assert verdict.sentence == "treatment: no difference in thumbs_up larger than 0.0135"


def test_too_little_data_says_about_how_many_more_units() -> None:
    verdict = judged(votes(control=(100, 500), treatment=(105, 500)), smallest=0.05)

    assert verdict.kind == "undecided"
    assert verdict.arms[0].more_units is not None
    assert 2_500 < verdict.arms[0].more_units < 5_000
    assert verdict.sentence.startswith("treatment: not enough data: about 3,")
    assert "more units; so far no difference in thumbs_up larger than 0.0951" in verdict.sentence


def test_a_beginning_is_not_reported_as_hopeless() -> None:
    verdict = judged(Outcomes(), smallest=0.05)

    assert verdict.kind == "undecided"
    assert verdict.arms[0].more_units is None
    assert verdict.sentence == "treatment: not enough data for an interval of thumbs_up yet"


def test_a_broken_split_is_shouted_before_anything_else() -> None:
    verdict = judged(
        votes(control=(400, 2_000), treatment=(700, 2_000)),
        split=(1_000, 1_300),
        errors=votes(control=(0, 400), treatment=(200, 400)),
    )

    assert verdict.kind == "ratio_mismatch"
    assert verdict.sentence.startswith("SAMPLE RATIO MISMATCH")
    assert "better" not in verdict.sentence
    assert verdict.pause == ("treatment",)


def test_a_harm_limit_pauses_what_is_worse_beyond_doubt() -> None:
    verdict = judged(
        votes(control=(400, 2_000), treatment=(700, 2_000)),
        errors=votes(control=(8, 400), treatment=(80, 400)),
    )

    assert verdict.kind == "harm_limit"
    assert verdict.sentence == (
        "treatment is worse than control in error by more than 0.02: paused"
    )
    assert verdict.pause == ("treatment",)
    assert verdict.harm_limits[0].worse_by_at_least > 0.08


@pytest.mark.parametrize(("planned", "failing"), [(100, 0.3), (1e6, 0.3), (1e6, 0.05)])
def test_a_harm_limit_sees_what_sixty_busy_keys_suffer_however_large_the_plan(
    planned: float, failing: float
) -> None:
    """Sixty keys send 1,000 requests each; control never fails. Before, 52 % had to fail."""
    rng = np.random.default_rng(61)
    errors = summarised(
        UnitRow(
            unit=f"{arm}-{n}",
            epoch=1,
            variant=arm,
            count=1_000,
            total=float(rng.binomial(1_000, failing * (arm == "treatment"))),
        )
        for arm in ("control", "treatment")
        for n in range(30)
    )
    case = ReportInput(
        control="control",
        treatments=("treatment",),
        primary=VOTES,
        outcomes={"error": errors},
        harm_limits=(HarmBound(metric=BUILT_IN["error"], worse_by=0.02),),
        planned=planned,
    )

    assert verdict_of(case).pause == ("treatment",)


@pytest.mark.parametrize("broken", [8, 12, 0])
def test_a_harm_limit_ignores_what_may_be_chance(broken: int) -> None:
    verdict = judged(
        votes(control=(400, 2_000), treatment=(700, 2_000)),
        errors=votes(control=(8, 400), treatment=(broken, 400)),
    )

    assert verdict.kind == "better"
    assert verdict.pause == ()


def test_a_harm_limit_on_latency_is_a_part_and_lower_is_better() -> None:
    slow = HarmBound(metric=BUILT_IN["latency_ms"], worse_by=0.2)

    def paused(treatment_ms: float) -> tuple[str, ...]:
        case = ReportInput(
            control="control",
            treatments=("treatment",),
            primary=VOTES,
            outcomes={"latency_ms": times(control=300, treatment=treatment_ms)},
            counts=(),
            harm_limits=(slow,),
            planned=200,
        )
        return verdict_of(case).pause

    assert paused(450) == ("treatment",)
    assert paused(390) == ("treatment",)
    assert paused(330) == ()
    assert paused(200) == ()


@pytest.mark.parametrize(("yes", "paused"), [(100, ("treatment",)), (600, ())])
def test_a_harm_limit_on_votes_stops_a_fall_and_no_rise(yes: int, paused: tuple[str, ...]) -> None:
    case = ReportInput(
        control="control",
        treatments=("treatment",),
        primary=BUILT_IN["error"],
        outcomes={"thumbs_up": votes(control=(350, 1_000), treatment=(yes, 1_000))},
        harm_limits=(HarmBound(metric=VOTES, worse_by=0.05),),
    )

    assert verdict_of(case).pause == paused


def test_faster_is_better_and_given_in_percent() -> None:
    verdict = verdict_of(
        ReportInput(
            control="control",
            treatments=("treatment",),
            primary=BUILT_IN["latency_ms"],
            outcomes={"latency_ms": times(control=300, treatment=240)},
            planned=200,
        )
    )

    assert verdict.kind == "better"
    assert verdict.sentence.startswith("treatment is better than control: latency_ms −19.9 % (−2")
    assert verdict.sentence.count(" %") == 3


def test_the_least_difference_that_matters_is_a_part_for_latencies() -> None:
    def kind(smallest: float) -> str:
        case = ReportInput(
            control="control",
            treatments=("treatment",),
            primary=BUILT_IN["latency_ms"],
            outcomes={"latency_ms": times(control=300, treatment=303)},
            planned=200,
            smallest=smallest,
        )
        return verdict_of(case).kind

    found = verdict_of(
        ReportInput(
            control="control",
            treatments=("treatment",),
            primary=BUILT_IN["latency_ms"],
            outcomes={"latency_ms": times(control=300, treatment=303)},
            planned=200,
        )
    ).arms[0]
    farthest = max(-found.effect.low, found.effect.high)

    assert kind(exp(farthest) - 1 + 1e-9) == "alike"
    assert kind(exp(farthest) - 1 - 1e-9) == "undecided"


def test_several_treatments_share_alpha_and_are_all_named() -> None:
    outcomes = votes(control=(400, 2_000), good=(700, 2_000), same=(405, 2_000))

    alone = judged(outcomes, treatments=("good",))
    both = judged(outcomes, treatments=("same", "good"))

    assert both.kind == "better"
    assert both.sentence.startswith("good is better than control")
    assert "; same: not enough data" in both.sentence
    narrow, wide = alone.arms[0].effect, both.arms[1].effect
    assert wide.high - wide.low > narrow.high - narrow.low


def test_a_sound_aa_test_says_so_and_a_failed_one_is_a_warning() -> None:
    sound = judged(votes(control=(400, 2_000), treatment=(410, 2_000)), aa=True)
    failed = judged(votes(control=(400, 2_000), treatment=(700, 2_000)), aa=True)

    assert sound.kind == "undecided"
    assert sound.sentence.startswith("A/A test sound so far: ")
    assert failed.kind == "unsound"
    assert failed.sentence.startswith("A/A TEST FAILED: treatment is better than control")


def test_an_experiment_without_a_treatment_is_an_error() -> None:
    with pytest.raises(ValueError, match="a variant besides control"):
        judged(Outcomes(), treatments=())


def test_an_interval_beyond_all_numbers_is_reported_as_one() -> None:
    """A sample that is planned so large that its interval is nowhere near after the first units."""
    latency = BUILT_IN["latency_ms"]
    rows = [
        UnitRow(unit=f"{arm}{one}", epoch=1, variant=arm, count=1, total=log(100 + one))
        for arm in ("control", "treatment")
        for one in range(60)
    ]
    case = ReportInput(
        control="control",
        treatments=("treatment",),
        primary=latency,
        outcomes={"latency_ms": summarised(rows)},
        planned=1e12,
        harm_limits=(HarmBound(metric=latency, worse_by=0.2),),
    )

    verdict = verdict_of(case)

    assert verdict.kind == "undecided"
    assert verdict.arms[0].effect.high > 700
    assert "larger than inf %" in verdict.sentence
    assert -1 < verdict.harm_limits[0].worse_by_at_least < 0


def test_metrics_know_their_direction_and_scale() -> None:
    latency = BUILT_IN["latency_ms"]

    assert latency.gain(0.3) == -0.3
    assert latency.scaled(250.0) == log(250)
    assert latency.scaled(0.0) == log(LEAST)
    assert latency.shown(log(250)) == pytest.approx(250)
    assert latency.effect(log1p(0.25)) == pytest.approx(0.25)
    assert BUILT_IN["cost_usd"].scaled(0.01) == 0.01


def test_numbers_read_as_people_write_them() -> None:
    assert [rounded(number) for number in (0, 7.2, 99.5, 12_345, 1_000_001)] == [
        "0",
        "8",
        "100",
        "13,000",
        "1,100,000",
    ]
    assert change(VOTES, 0.0213) == "+0.0213"
    assert amount(VOTES, -0.0213) == "0.0213"
    assert change(BUILT_IN["ttft_ms"], log1p(-0.1)) == "−10 %"
    assert change(BUILT_IN["ttft_ms"], log1p(12.345)) == "+1,234 %"
    assert change(BUILT_IN["ttft_ms"], 20.0) == "+4.9e+10 %"
    assert signed(-0.00123, relative=True) == "−0.123 %"
    assert signed(-0.5, relative=False) == "−0.5"
    assert figure(-0.00012345, ",.3g") == "−0.000123"
