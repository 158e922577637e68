"""The score test of a harm limit, against one written from docs/experiments-statistics.md."""

from math import log, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.statistics.limit_test import enough, limit_test
from strowger_gateway.gateway.statistics.outcomes import Cell, UnitRow, summarised
from tests.gateway.statistics.crowd import NAMES, yes_votes
from tests.gateway.statistics.fleet import Bools, Floats


def cells(treated: Bools, count: Floats, total: Floats) -> tuple[Cell, Cell]:
    """Of the treatment and control."""
    rows = [
        UnitRow(unit=str(unit), epoch=1, variant=NAMES[int(arm)], count=int(n), total=float(x))
        for unit, (arm, n, x) in enumerate(zip(treated, count, total, strict=True))
    ]
    places = {cell.variant: cell for cell in summarised(rows).cells}
    return places[NAMES[1]], places[NAMES[0]]


def by_the_document(
    treated: Bools, count: Floats, total: Floats, worse_by: float, alpha: float
) -> tuple[float, float]:
    """Return z and what it is compared with."""
    rates: list[float] = []
    design: list[float] = []
    sizes: list[float] = []
    kish: list[float] = []
    for arm in (False, True):
        n, x = count[treated == arm], total[treated == arm]
        size, units = float(n.sum()), len(n)
        p = float(x.sum()) / size
        variance = float(((x - p * n) ** 2).sum()) * units / (units - 1) / size**2
        rates.append(p)
        design.append(max(variance / (p * (1 - p) / size), 1.0))
        sizes.append(size)
        kish.append(size**2 / float((n * n).sum()))
    q0 = (rates[0] * sizes[0] + 0.5) / (sizes[0] + 1)
    q1 = q0 + worse_by
    v0 = design[0] * q0 * (1 - q0) / sizes[0]
    v1 = design[1] * q1 * (1 - q1) / sizes[1]
    t = (rates[1] - rates[0] - worse_by) / sqrt(v0 + v1)
    d = (v0 + v1) ** 2 / (v0**2 / (kish[0] - 1) + v1**2 / (kish[1] - 1))
    z = (8 * d + 1) / (8 * d + 3) * sqrt(d * log(1 + t * t / d))
    normal = NormalDist().inv_cdf(1 - alpha)
    g = v1**2 / q1 / (v0 + v1) ** 1.5
    return z if t > 0 else -z, normal + g * (normal**2 - 1) / 6


@pytest.mark.parametrize("seed", range(8))
def test_the_test_is_the_one_of_the_document(seed: int) -> None:
    rng = np.random.default_rng(seed)
    treated = np.arange(240) % 2 == 0
    count = rng.integers(20, 60, 240).astype(np.float64)
    total = yes_votes(rng, count, np.where(treated, 0.09, 0.03), 0.02)

    found = limit_test(*cells(treated, count, total), worse_by=0.02)

    assert found is not None
    expected = by_the_document(treated, count, total, 0.02, 5e-4)
    assert (found.z, found.threshold(5e-4)) == pytest.approx(expected, rel=1e-9)


def test_fewer_good_things_are_as_bad_as_more_bad_things() -> None:
    rng = np.random.default_rng(3)
    treated = np.arange(60) % 2 == 0
    count = np.full(60, 50.0)
    failed = yes_votes(rng, count, np.where(treated, 0.3, 0.1), 0.05)

    bad = limit_test(*cells(treated, count, failed), worse_by=0.05)
    good = limit_test(*cells(treated, count, count - failed), worse_by=0.05, higher_is_better=True)

    assert bad is not None
    assert good is not None
    assert good.z == pytest.approx(bad.z)
    assert good.threshold(1e-3) == pytest.approx(bad.threshold(1e-3))


def test_an_arm_whose_every_request_fails_is_beyond_any_limit() -> None:
    treated = np.arange(40) % 2 == 0
    count = np.full(40, 5.0)

    found = limit_test(*cells(treated, count, np.where(treated, count, 0.0)), worse_by=0.02)

    assert found is not None
    assert found.exceeded(1e-5)


def test_equal_arms_without_a_failure_are_within_every_limit() -> None:
    treated = np.arange(40) % 2 == 0

    found = limit_test(*cells(treated, np.full(40, 5.0), np.zeros(40)), worse_by=0.02)

    assert found is not None
    assert found.z < 0


@pytest.mark.parametrize(("units", "treated", "is_enough"), [(60, 30, True), (60, 14, False)])
def test_few_treated_units_are_left_to_the_assignment(
    units: int, treated: int, is_enough: bool
) -> None:
    chosen = np.arange(units) < treated
    treatment, control = cells(chosen, np.full(units, 9.0), np.zeros(units))

    assert enough(treatment, control) is is_enough


def test_a_giant_leaves_too_few_effective_units() -> None:
    count = np.full(60, 5.0)
    count[0] = 10_000.0
    treatment, control = cells(np.arange(60) % 2 == 0, count, np.zeros(60))
    treatment = replace(treatment, count=count[::2].sum(), count2=float((count[::2] ** 2).sum()))

    assert not enough(treatment, control)
    assert limit_test(treatment, control, worse_by=0.02) is None
