"""Differences and their spread, against other ways of computing them."""

from itertools import pairwise
from math import inf, isinf, sqrt

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.confidence_sequence import (
    one_sided,
    tuned,
    two_sided,
)
from strowger_gateway.gateway.statistics.effects import (
    Effect,
    Look,
    effect,
    lower_bound,
)
from strowger_gateway.gateway.statistics.outcomes import Outcomes, UnitRow, summarised
from tests.examples import examples
from tests.gateway.statistics.crowd import (
    NAMES,
    Visit,
    as_units_arrive,
    outcomes_of,
    pareto_counts,
    yes_votes,
)

LOOK = Look(planned=300)


def crowd(
    seed: int, *, units: int = 400, epochs: int = 1, share: float = 0.5, shift: float = 0.0
) -> list[Visit]:
    """The same users in every epoch, not all of them each time."""
    rng = np.random.default_rng(seed)
    treated = rng.random(units) < share
    visits: list[Visit] = []
    for epoch in range(1, epochs + 1):
        counts = pareto_counts(rng, units, 3.0) * (rng.random(units) < 0.8)
        totals = yes_votes(rng, counts, 0.3, 0.4) + shift * counts
        visits.append(Visit(epoch=epoch, treated=treated, count=counts, total=totals))
    return visits


def found_in(outcomes: Outcomes, bounds: tuple[float, float] | None = None) -> Effect:
    return effect(outcomes, control="control", treatment="treatment", look=LOOK, bounds=bounds)


def rows_of(visits: list[Visit]) -> list[UnitRow]:
    return [
        UnitRow(
            unit=str(unit),
            epoch=visit.epoch,
            variant=NAMES[int(visit.treated[unit])],
            count=int(visit.count[unit]),
            total=float(visit.total[unit]),
        )
        for visit in visits
        for unit in np.flatnonzero(visit.count)
    ]


def test_one_request_each_is_welchs_standard_error() -> None:
    rng = np.random.default_rng(1)
    treated = np.arange(500) < 200
    values = rng.normal(5, 2, 500) + treated
    visit = Visit(epoch=1, treated=treated, count=np.ones(500), total=values)
    one, other = values[treated], values[~treated]

    found = found_in(outcomes_of([visit]))

    error = sqrt(one.var(ddof=1) / 200 + other.var(ddof=1) / 300)
    assert found.difference == pytest.approx(one.mean() - other.mean())
    assert found.error == pytest.approx(error)
    assert found.pairs == pytest.approx(120)
    assert found.effective == pytest.approx(200)
    radius = error / sqrt(120) * two_sided(120, tuned(300, 0.05), 0.05)
    assert (found.low, found.high) == pytest.approx(
        (found.difference - radius, found.difference + radius)
    )


def test_the_published_t_test_of_two_sums_has_this_standard_error() -> None:
    """GrowthBook's own test data: mean 0.41, sd 3.9, n 3407 and 0.7, 6.2, 3461: 0.04538 to 0.53462.

    github.com/growthbook/growthbook, packages/stats/tests/frequentist/test_tests.py; its interval
    is 1.9603 (t with 5,841 degrees of freedom) standard errors wide.
    """
    from strowger_gateway.gateway.statistics.outcomes import Cell

    cells = tuple(
        Cell(
            epoch=1,
            variant=name,
            units=n,
            count=n,
            total=n * mean,
            count2=n,
            total2=(n - 1) * sd**2 + n * mean**2,
            product=n * mean,
        )
        for name, mean, sd, n in (("control", 0.41, 3.9, 3407), ("treatment", 0.7, 6.2, 3461))
    )

    found = found_in(Outcomes(cells=cells))

    assert found.difference == pytest.approx(0.29)
    assert 1.96034 * found.error == pytest.approx(0.53462 - 0.29, abs=2e-5)


def test_the_delta_method_agrees_with_leaving_out_one_unit_at_a_time() -> None:
    visits = crowd(2)
    rows = rows_of(visits)
    found = found_in(summarised(rows))

    squares = 0.0
    for arm in NAMES:
        ours = [row for row in rows if row.variant == arm]
        total, count = sum(row.total for row in ours), sum(row.count for row in ours)
        left = [(total - row.total) / (count - row.count) for row in ours]
        mean = sum(left) / len(left)
        squares += (len(left) - 1) / len(left) * sum((value - mean) ** 2 for value in left)

    assert found.error == pytest.approx(sqrt(squares), rel=0.02)


def test_users_who_return_in_later_epochs_are_not_counted_as_others() -> None:
    """The spread over epochs is that of the same crowd drawn again, not of more users."""
    estimates: list[float] = []
    errors: list[float] = []
    blind: list[float] = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        treated = rng.random(300) < 0.5
        own = rng.normal(0, 1, 300)
        visits = [
            Visit(
                epoch=epoch,
                treated=treated,
                count=np.ones(300),
                total=own + 0.3 * rng.normal(0, 1, 300),
            )
            for epoch in (1, 2, 3)
        ]
        outcomes = outcomes_of(visits)
        estimates.append(found_in(outcomes).difference)
        errors.append(found_in(outcomes).error)
        blind.append(found_in(Outcomes(cells=outcomes.cells)).error)

    spread = float(np.std(estimates))

    assert np.mean(errors) == pytest.approx(spread, rel=0.1)
    assert np.mean(blind) < 0.65 * spread


def test_epochs_are_weighted_by_their_units_and_never_pooled() -> None:
    """Everything doubles between the epochs while treatment grows from 10 to 50 %: no effect."""
    rows = [
        UnitRow(unit=f"{epoch}-{n}", epoch=epoch, variant=arm, count=1, total=level + n % 2)
        for epoch, level, sizes in ((1, 1.0, (900, 100)), (2, 9.0, (500, 500)))
        for arm, size in zip(NAMES, sizes, strict=True)
        for n in range(size)
    ]

    found = found_in(summarised(rows))

    assert found.difference == pytest.approx(0, abs=1e-12)
    assert found.pairs == pytest.approx(90 + 250)
    assert found.low < 0 < found.high


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 99), shift=st.floats(-50, 50), scale=st.floats(0.01, 100))
def test_the_units_of_a_metric_do_not_matter(seed: int, shift: float, scale: float) -> None:
    visits = crowd(seed, epochs=2)
    moved = [
        msgspec.structs.replace(visit, total=scale * (visit.total + shift * visit.count))
        for visit in visits
    ]

    one, other = found_in(outcomes_of(visits)), found_in(outcomes_of(moved))

    assert other.difference == pytest.approx(scale * one.difference, rel=1e-6, abs=1e-8 * scale)
    assert other.error == pytest.approx(scale * one.error, rel=1e-5)
    assert other.p == pytest.approx(one.p, rel=1e-4)


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 99), share=st.floats(0.2, 0.8))
def test_exchanging_the_arms_turns_the_sign(seed: int, share: float) -> None:
    visits = crowd(seed, epochs=2, share=share)
    turned = [msgspec.structs.replace(visit, treated=~visit.treated) for visit in visits]

    one, other = found_in(outcomes_of(visits)), found_in(outcomes_of(turned))

    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))


def test_other_arms_and_epochs_without_both_arms_change_nothing() -> None:
    rows = rows_of(crowd(5))
    third = [msgspec.structs.replace(row, variant="third", unit=f"t{row.unit}") for row in rows]
    alone = [msgspec.structs.replace(row, epoch=9) for row in rows if row.variant == "control"]

    found = found_in(summarised([*rows, *third, *alone]))

    assert found.excluded_epochs == (9,)
    assert msgspec.structs.replace(found, excluded_epochs=()) == found_in(summarised(rows))


def test_no_interval_is_given_before_there_is_enough() -> None:
    few = found_in(summarised(rows_of(crowd(6, units=30))))
    nothing = found_in(Outcomes())
    constant = found_in(outcomes_of([msgspec.structs.replace(crowd(7)[0], total=np.zeros(400))]))

    for found in (few, nothing, constant):
        assert not found.known
        assert (found.low, found.high, found.p) == (-inf, inf, 1.0)
        assert isinf(lower_bound(found, LOOK, sign=1))


def test_one_user_who_sends_nearly_everything_leaves_50_units_of_effect() -> None:
    visit = crowd(8)[0]
    count, total = visit.count.copy(), visit.total.copy()
    count[np.flatnonzero(visit.treated)[0]] = 1e6

    found = found_in(outcomes_of([Visit(epoch=1, treated=visit.treated, count=count, total=total)]))

    assert found.effective >= 50 * (1 - 1e-9)
    assert found.known


def test_users_who_return_are_worth_no_more_users_for_it() -> None:
    """Twenty epochs of the same hundred are worth a hundred users: fifty in each arm."""
    treated = np.arange(100) % 2 == 0
    totals = np.random.default_rng(12).normal(0, 1, 100)
    visits = [
        Visit(epoch=epoch, treated=treated, count=np.ones(100), total=totals)
        for epoch in range(1, 21)
    ]

    found = found_in(outcomes_of(visits))

    assert found.effective == pytest.approx(50)
    assert found.error == pytest.approx(found_in(outcomes_of(visits[:1])).error, rel=0.01)


def test_an_epoch_counts_once_ten_units_are_in_both_arms() -> None:
    rows = rows_of(crowd(13))

    def late(units: int) -> list[UnitRow]:
        return [
            UnitRow(unit=f"late-{arm}-{n}", epoch=2, variant=arm, count=1, total=float(n))
            for arm in NAMES
            for n in range(units)
        ]

    assert found_in(summarised([*rows, *late(9)])).excluded_epochs == (2,)
    assert found_in(summarised([*rows, *late(10)])).excluded_epochs == ()


def test_an_arm_that_never_failed_still_has_an_honest_interval() -> None:
    treated = np.arange(1_000) < 100
    errors = (np.arange(1_000) >= 992).astype(np.float64)
    visit = Visit(epoch=1, treated=treated, count=np.ones(1_000), total=errors)

    naive, honest = found_in(outcomes_of([visit])), found_in(outcomes_of([visit]), (0.0, 1.0))

    assert naive.error < 0.004
    assert honest.error > 0.009
    assert honest.low < 0 < honest.high


@pytest.mark.parametrize("digits", range(13))
def test_values_far_from_zero_are_never_taken_for_closer_together_than_they_are(
    digits: int,
) -> None:
    """Sums of squares lose the spread of numbers that agree in their first 8 digits."""
    rng = np.random.default_rng(digits)
    treated = np.arange(4_000) % 2 == 0
    spread = rng.standard_normal(4_000)
    near = Visit(epoch=1, treated=treated, count=np.ones(4_000), total=spread)
    far = Visit(epoch=1, treated=treated, count=np.ones(4_000), total=10.0**digits + spread)

    honest, found = found_in(outcomes_of([near])), found_in(outcomes_of([far]))

    assert found.error >= honest.error * (1 - 1e-6)
    assert found.known or digits > 6
    assert found.error < honest.error * 1.01 or digits > 5


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e9 + 0.1])
def test_values_that_never_differ_do_not_show_how_far_they_may(value: float) -> None:
    """What rounding leaves of their spread is no interval."""
    treated = np.arange(3_000) % 3 == 0
    counts = (np.arange(3_000) % 7 + 1).astype(np.float64)
    visit = Visit(epoch=1, treated=treated, count=counts, total=counts * value)

    assert not found_in(outcomes_of([visit])).known


def test_sending_every_request_three_times_adds_no_evidence() -> None:
    """Only the walk is longer, which moves its boundary a little."""
    visit = crowd(11)[0]
    thrice = msgspec.structs.replace(visit, count=3 * visit.count, total=3 * visit.total)

    once, again = (found_in(outcomes_of([each])) for each in (visit, thrice))

    assert again.error == pytest.approx(once.error)
    assert (again.low, again.high) == pytest.approx((once.low, once.high), rel=0.1)


def test_twenty_five_units_per_arm_are_enough_for_any_sums_of_fractions() -> None:
    """For many numbers of units in control, 25 equal units add up to 24.999999999999996."""
    for control in range(25, 400):
        treated = np.arange(25 + control) < 25
        totals = (np.arange(25 + control) % 2).astype(np.float64)
        visit = Visit(epoch=1, treated=treated, count=np.ones(len(treated)), total=totals)

        assert found_in(outcomes_of([visit]), (0.0, 1.0)).known


def test_with_several_treatments_the_p_value_agrees_with_the_interval() -> None:
    """At three arms 3.04 standard errors were p = 0.0495, and the interval contained 0."""
    visit = crowd(14)[0]
    look = Look(alpha=0.025, planned=300, among=2)

    def shifted(by: float) -> Effect:
        moved = msgspec.structs.replace(visit, total=visit.total + by * visit.count * visit.treated)
        return effect(outcomes_of([moved]), control="control", treatment="treatment", look=look)

    still = shifted(0.0)
    edge = (still.high - still.low) / 2 - still.difference
    beyond, within = shifted(edge * 1.001), shifted(edge * 0.999)

    assert beyond.low > 0 > within.low
    assert beyond.p < 0.05 < within.p


def test_a_broken_variant_is_known_to_be_worse_after_a_few_dozen_users() -> None:
    treated = np.arange(80) % 2 == 0
    visit = Visit(epoch=1, treated=treated, count=np.ones(80), total=treated.astype(np.float64))
    found = found_in(outcomes_of([visit]), (0.0, 1.0))

    worse = lower_bound(found, Look(alpha=0.01, planned=300), sign=1)

    assert worse > 0.5


def test_a_bound_on_one_side_is_the_one_sided_boundary() -> None:
    found = found_in(outcomes_of(crowd(9)))
    look = Look(alpha=0.01, planned=500)

    low, high = lower_bound(found, look, sign=1), lower_bound(found, look, sign=-1)

    radius = one_sided(found.time, tuned(500, 0.02), 0.01) / sqrt(found.time) * found.error
    assert low == pytest.approx(found.difference - radius)
    assert high == pytest.approx(-found.difference - radius)


def test_the_interval_grows_narrower_as_users_come() -> None:
    visit = crowd(10, units=8_000)[0]
    here = visit.count > 0
    looks = np.array([1_000, 2_000, 4_000, 6_000])
    arriving = as_units_arrive(visit.treated[here], visit.count[here], visit.total[here], looks)

    widths = [found.high - found.low for found in map(found_in, arriving)]

    assert all(after < before for before, after in pairwise(widths))
