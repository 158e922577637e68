"""Canaries are paused early where they fail, and hardly ever where they are within their limit.

A few runs always; the tables of docs/experiments-statistics.md in `make nightly-statistics`, with
STROWGER_TRIALS runs for each cell.
"""

from math import sqrt
from typing import Any

import numpy as np
import pytest

from strowger_gateway.gateway.statistics.looks import LOOKS_ALPHA
from tests.gateway.experiments.guarding.canary import Stop, stops, traffic
from tests.gateway.statistics.test_error_rates import TRIALS, at_most

Cell = dict[str, Any]


def first_stops(
    cell: Cell, runs: int, upto: int, seed: int = 1, **more: Any
) -> list[dict[str, Stop]]:
    """By run, the first stop by each rule."""
    rng = np.random.default_rng(seed)
    return [
        {stop.rule: stop for stop in stops(rng, traffic(rng, **cell), upto=upto, **more)}
        for _ in range(runs)
    ]


def by_any(found: list[dict[str, Stop]]) -> float:
    return sum(map(bool, found)) / len(found)


DEAD: Cell = {"units": 60, "treated": 3, "control": 0.01, "treatment": 1.0}


def test_a_dead_arm_of_3_in_60_keys_is_paused_within_30_of_its_requests() -> None:
    found = first_stops(DEAD, runs=12, upto=1_500)

    for run in found:
        assert run["circuit"].of_treatment <= 30
        assert run["assignment"].of_treatment <= 60
    assert np.median([run["assignment"].of_treatment for run in found]) <= 30


def test_a_dead_arm_of_10_in_20_users_is_paused_by_the_assignment_alone() -> None:
    cell = {**DEAD, "units": 20, "treated": 10}

    found = first_stops(cell, runs=4, upto=1_000, circuit=None)

    assert all(set(run) == {"assignment"} for run in found)


def test_with_one_active_key_only_the_circuit_pauses() -> None:
    found = first_stops({**DEAD, "units": 1, "treated": 1}, runs=5, upto=3_000)

    for run in found:
        assert set(run) == {"circuit"}
        assert run["circuit"].of_treatment <= 30


BUSY: Cell = {"units": 60, "treated": 30, "control": 0.01, "treatment": 0.05}


@pytest.mark.parametrize(("likeness", "least"), [(0.0, 0.95), (0.01, 0.6)])
def test_harm_of_few_busy_keys_is_found(likeness: float, least: float) -> None:
    found = first_stops({**BUSY, "likeness": likeness}, runs=50, upto=20_000)

    assert by_any(found) >= least


WITHIN: dict[str, Cell] = {
    **{
        f"A/A {rate:g}, {units} units, {100 * share:g} %, Pareto(1.5)": {
            "units": units, "treated": share, "control": rate, "treatment": rate,
            "likeness": 0.05, "shape": 1.5,
        }
        for rate, share, units in (
            (0.01, 0.05, 60), (0.05, 0.05, 60), (0.01, 0.1, 200), (0.05, 0.1, 60),
            (0.05, 0.5, 60), (0.05, 0.5, 20), (0.01, 0.5, 400),
        )
    },
    **{
        f"at the limit, 0.01 to 0.03, {treated} of {units}, likeness {likeness:g}": {
            "units": units, "treated": treated, "control": 0.01, "treatment": 0.03,
            "likeness": likeness,
        }
        for treated, units, likeness in (
            (3, 60, 0.0), (6, 60, 0.05), (30, 60, 0.0), (30, 60, 0.01), (30, 60, 0.1),
            (30, 300, 0.01), (15, 30, 0.05), (12, 24, 0.05),
        )
    },
    "at the limit, 0.03 to 0.05, Pareto(1.5), 50 %": {
        "units": 200, "treated": 0.5, "control": 0.03, "treatment": 0.05, "likeness": 0.05,
        "shape": 1.5,
    },
    "at the limit, 0.01 to 0.03, Pareto(1.2), 30 of 60": {
        "units": 60, "treated": 30, "control": 0.01, "treatment": 0.03, "likeness": 0.05,
        "shape": 1.2,
    },
    "at the limit, 0.01 to 0.03, Pareto(1.5), 20 of 400": {
        "units": 400, "treated": 20, "control": 0.01, "treatment": 0.03, "likeness": 0.02,
        "shape": 1.5,
    },
    "at the limit, 0.05 to 0.07, keys that differ, 20 of 40": {
        "units": 40, "treated": 20, "control": 0.05, "treatment": 0.07, "likeness": 0.3,
    },
    "A/A 0.002, 17 of 340": {
        "units": 340, "treated": 17, "control": 0.002, "treatment": 0.002, "likeness": 0.02,
    },
    "at the limit on average, all errors of 2 % of the keys, 30 of 60": {
        "units": 60, "treated": 30, "control": 0.01, "treatment": 0.03, "concentrated": 1.0,
    },
    "at the limit on average, 30 points in 7 % of the keys, 6 of 60": {
        "units": 60, "treated": 6, "control": 0.01, "treatment": 0.03, "concentrated": 0.3,
    },
}  # fmt: skip


@pytest.mark.parametrize("cell", [list(WITHIN)[place] for place in (1, 4, 10, 16)])
def test_a_canary_within_its_limit_is_hardly_ever_paused(cell: str) -> None:
    found = first_stops(WITHIN[cell], runs=20, upto=20_000)

    assert by_any(found) <= at_most(0.01, 20)


@pytest.mark.nightly
@pytest.mark.parametrize("cell", WITHIN)
def test_every_rule_together_holds_the_level(cell: str) -> None:
    """Of all rules at most 1 %, and of the looks their share."""
    found = first_stops(WITHIN[cell], runs=TRIALS, upto=100_000)

    parts = {
        rule: sum(rule in run for run in found) / TRIALS
        for rule in ("circuit", "assignment", "score", "bound")
    }
    print(f"\n{cell}: {100 * by_any(found):.2f} % paused {parts}")
    assert by_any(found) <= at_most(0.01, TRIALS)
    assert parts["assignment"] + parts["score"] <= at_most(LOOKS_ALPHA, TRIALS)


HARMED: dict[str, tuple[Cell, float]] = {
    **{
        f"60 keys of 1,000 requests, 0.01 to 0.05, likeness {likeness:g}": (
            {**BUSY, "likeness": likeness}, least
        )
        for likeness, least in ((0.0, 0.99), (0.005, 0.95), (0.01, 0.82), (0.05, 0.1))
    },
    "3 of 60 keys, dead": (DEAD, 1.0),
    "3 of 60 keys, 30 % errors": ({**DEAD, "treatment": 0.3, "likeness": 0.05}, 0.9),
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("cell", HARMED)
def test_harm_is_found_by_20_000_requests(cell: str) -> None:
    of, least = HARMED[cell]

    found = first_stops(of, runs=TRIALS, upto=20_000)

    parts = {
        rule: sum(rule in run for run in found) / TRIALS
        for rule in ("circuit", "assignment", "score", "bound")
    }
    first = [min(stop.of_treatment for stop in run.values()) for run in found if run]
    print(
        f"\n{cell}: found {100 * by_any(found):.0f} %, half by {np.median(first):.0f} of the"
        f" treatment's requests {parts}"
    )
    assert by_any(found) >= least - 3 * sqrt(least * (1 - least) / TRIALS)
