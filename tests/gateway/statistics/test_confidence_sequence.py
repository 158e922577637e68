"""Boundaries against the reference implementation's numbers, their own equations, and chance."""

from math import exp, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.confidence_sequence import (
    evidence,
    one_sided,
    p_value,
    tuned,
    two_sided,
)

ALPHAS = st.floats(1e-6, 0.3)
TIMES = st.floats(1e-3, 1e9)


def test_the_numbers_are_those_of_the_authors_own_software() -> None:
    """github.com/gostevehoward/confseq, test/uniform_boundaries_unittest.cpp: made in R."""
    rho = tuned(100, 0.05)

    assert rho == pytest.approx(12.60056, abs=1e-5)
    assert evidence(10, 100, rho) == pytest.approx(-0.6510052, abs=1e-6)
    assert two_sided(100, rho, 0.05) == pytest.approx(30.35209, abs=1e-5)
    assert one_sided(100, tuned(100, 0.1), 0.05) == pytest.approx(27.66071, abs=1e-5)


@given(time=TIMES, planned=TIMES, alpha=ALPHAS)
def test_the_interval_is_theorem_2_2_of_the_asymptotic_confidence_sequences(
    time: float, planned: float, alpha: float
) -> None:
    rho = tuned(planned, alpha)
    squared = 1 / rho  # the paper's rho²
    margin = sqrt(
        2 * (time * squared + 1) / (time**2 * squared) * log(sqrt(time * squared + 1) / alpha)
    )

    assert two_sided(time, rho, alpha) / time == pytest.approx(margin, rel=1e-9)


def test_the_evidence_is_the_likelihood_ratio_averaged_over_drifts() -> None:
    """By numerical integration over the normal mixture, rather than in closed form."""
    score, time, rho = 17.0, 80.0, 9.0
    drifts = np.linspace(-3, 3, 20_001)
    density = np.exp(-0.5 * drifts**2 * rho) * sqrt(rho / (2 * pi))
    ratios = np.exp(drifts * score - drifts**2 * time / 2)

    averaged = float((density * ratios).sum() * (drifts[1] - drifts[0]))

    assert evidence(score, time, rho) == pytest.approx(log(averaged), rel=1e-9)


@given(time=TIMES, planned=TIMES, alpha=ALPHAS, score=st.floats(-50, 50))
def test_the_p_value_is_below_alpha_just_when_the_interval_excludes_zero(
    time: float, planned: float, alpha: float, score: float
) -> None:
    rho = tuned(planned, alpha)
    edge = two_sided(time, rho, alpha)

    assert p_value(edge * 1.0001, time, rho) < alpha < p_value(edge * 0.9999, time, rho)
    assert 0 <= p_value(score * sqrt(time), time, rho) <= 1


@given(time=TIMES, planned=TIMES, alpha=ALPHAS)
def test_a_bound_on_one_side_is_nearer_and_solves_its_equation(
    time: float, planned: float, alpha: float
) -> None:
    from statistics import NormalDist

    rho = tuned(planned, 2 * alpha)
    bound = one_sided(time, rho, alpha)
    total = time + rho
    phi = NormalDist().cdf(bound / sqrt(total))

    mixture = 0.5 * log(4 * rho / total) + bound**2 / (2 * total) + log(phi)

    assert bound < two_sided(time, rho, alpha)
    if bound > 0:
        assert exp(mixture) == pytest.approx(1 / alpha, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.2])
def test_tuning_makes_the_interval_about_narrowest_at_the_planned_time(alpha: float) -> None:
    best = min(two_sided(1_000, rho, alpha) for rho in np.geomspace(1, 10_000, 2_000))

    assert two_sided(1_000, tuned(1_000, alpha), alpha) <= best * 1.005


def test_random_walks_leave_the_boundaries_as_rarely_as_promised() -> None:
    rng = np.random.default_rng(20)
    steps, walks = 3_000, 1_500
    paths = np.cumsum(rng.standard_normal((walks, steps)), axis=1)
    times = np.arange(1, steps + 1)
    both = np.array([two_sided(time, tuned(500, 0.2), 0.2) for time in times.tolist()])
    upper = np.array([one_sided(time, tuned(500, 0.4), 0.2) for time in times.tolist()])

    left_both = (np.abs(paths) > both).any(axis=1).mean()
    left_upper = (paths > upper).any(axis=1).mean()

    assert 0.08 < left_both <= 0.2
    assert 0.08 < left_upper <= 0.2
