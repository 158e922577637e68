"""Adjusted moments are those of adjusted rows, and theta is the least-squares fit."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.adjustment import Joint, compared, fit
from strowger_gateway.gateway.statistics.covariate_balance import imbalances
from strowger_gateway.gateway.statistics.effects import Look, effect
from strowger_gateway.gateway.statistics.least_squares import solved
from strowger_gateway.gateway.statistics.outcomes import UnitRow, summarised
from tests.gateway.statistics.joint_rows import Covaried, adjusted_rows, joint_of

ARMS = ("control", "treatment")
BOTH = ("prompt_tokens", "past")


def crowd(
    units: int = 300, *, seed: int = 3, influence: float = 0.0, past: float = 0.6
) -> list[Covaried]:
    """Two epochs, half of the users in both. influence: of treatment on the prompts."""
    rng = np.random.default_rng(seed)
    rows: list[Covaried] = []
    for unit in range(units):
        own = rng.normal()
        before = rng.random() < past
        for epoch in (2, 3):
            if epoch == 3 and unit % 2:
                continue
            arm = int(rng.random() < 0.4)
            count = 1 + int(rng.pareto(2))
            tokens = float(rng.lognormal(5, 0.5)) * (1 + influence * arm)
            mean = 3 + own + 0.01 * tokens + 0.3 * arm + float(rng.normal()) / sqrt(count)
            values = {"prompt_tokens": tokens} | ({"past": own + 3} if before else {})
            row = UnitRow(
                unit=str(unit), epoch=epoch, variant=ARMS[arm], count=count, total=count * mean
            )
            rows.append(Covaried(row, values))
    return rows


def test_the_moments_are_those_of_rows_without_what_is_predicted() -> None:
    rows = crowd()

    found = adjusted_rows(rows, BOTH)

    tokens, past = found.fitted
    assert tokens.coverage == 1
    assert 0.5 < past.coverage < 0.7
    plain = summarised(
        [
            UnitRow(
                unit=one.row.unit,
                epoch=one.row.epoch,
                variant=one.row.variant,
                count=one.row.count,
                total=one.row.total
                - one.row.count
                * (
                    tokens.theta * (one.values["prompt_tokens"] - tokens.mean)
                    + (
                        past.theta * (one.values["past"] - past.mean)
                        + past.missing * (1 - past.share)
                        if "past" in one.values
                        else -past.missing * past.share
                    )
                ),
            )
            for one in rows
        ]
    )
    look = Look(planned=100)
    ours, theirs = (
        effect(one, control="control", treatment="treatment", look=look)
        for one in (found.outcomes, plain)
    )
    assert ours.known
    assert (ours.difference, ours.low, ours.high, ours.p) == pytest.approx(
        (theirs.difference, theirs.low, theirs.high, theirs.p), rel=1e-9
    )


def test_theta_is_what_a_token_costs_and_the_interval_is_narrower() -> None:
    rows = crowd()
    look = Look(planned=100)

    found = adjusted_rows(rows, ("prompt_tokens",))

    raw = effect(
        summarised([one.row for one in rows]), control="control", treatment="treatment", look=look
    )
    kept = effect(found.outcomes, control="control", treatment="treatment", look=look)
    assert found.fitted[0].theta == pytest.approx(0.01, rel=0.1)
    assert kept.error < 0.85 * raw.error


def test_a_covariate_that_the_variant_changes_is_found_and_another_is_not() -> None:
    for influence, differs in ((0.0, False), (0.3, True)):
        found = adjusted_rows(crowd(1_500, influence=influence), BOTH)

        one = imbalances(found.regressors, control="control", treatments=ARMS[1:], planned=300)

        assert [each.covariate for each in one] == (["prompt_tokens"] if differs else [])
        assert all(each.found.low > 0 for each in one)


def test_what_few_units_have_is_not_fitted() -> None:
    rows = crowd(past=0.05)

    tokens, past = adjusted_rows(rows, BOTH).fitted

    assert tokens.theta
    assert (past.theta, past.missing) == (0.0, 0.0)
    assert 0 < past.coverage < 0.1
    assert fit(Joint(covariates=BOTH), {}) == ()


def test_a_covariate_without_spread_and_a_copy_of_another_change_nothing() -> None:
    rows = [
        Covaried(
            one.row, {"a": one.values["prompt_tokens"], "b": 7.0, "c": one.values["prompt_tokens"]}
        )
        for one in crowd()
    ]

    three, single = joint_of(rows, ("a", "b", "c")), joint_of(rows, ("a",))
    one, flat, copy = fit(three, compared(three))

    assert flat.theta == 0.0
    assert sorted((bool(one.theta), bool(copy.theta))) == [False, True]
    assert one.theta + copy.theta == pytest.approx(fit(single, compared(single))[0].theta)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 6), more=st.integers(0, 6))
def test_the_equations_are_solved_as_numpy_solves_them(seed: int, size: int, more: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(size + more + 3, size)) * 10.0 ** rng.integers(-6, 6, size)
    goal = rng.normal(size=size + more + 3)
    left, right = columns.T @ columns, columns.T @ goal

    found = solved(left.tolist(), right.tolist(), np.diag(left).tolist())

    rest = goal - columns @ np.array(found)
    best = goal - columns @ np.linalg.lstsq(columns, goal, rcond=None)[0]
    assert rest @ rest == pytest.approx(best @ best, rel=1e-6, abs=1e-12)
