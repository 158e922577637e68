"""The history of an interval in few points."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.interval_history import (
    POINTS,
    SKEW_S,
    needs_point,
    redundant,
)


def followed(times: list[float], looks: list[float]) -> list[float]:
    """Return the points that remain of a history."""
    for at in looks:
        if needs_point(times, at):
            gone = redundant(times, at)
            times = [*(time for time in times if time not in gone), at]
    return times


def test_a_long_experiment_keeps_its_whole_history_in_few_points() -> None:
    for last in (2_000, 50_000):
        times = followed([], [float(second) for second in range(0, last, 5)])

        gaps = [after - before for before, after in pairwise(times)]
        assert POINTS / 3 < len(times) <= POINTS
        assert times[0] == 0
        assert times[-1] > 0.98 * last
        assert max(gaps) <= 4 * min(gaps)


@given(st.lists(st.floats(0, 1e9), max_size=600))
def test_a_history_is_bounded_and_in_order_with_any_clocks(looks: list[float]) -> None:
    times = followed([], looks)

    assert len(times) <= POINTS
    assert times == sorted(times)


def test_a_point_from_a_wrong_clock_does_not_end_the_history() -> None:
    times = followed([10.0, 20.0, 1e9], [30.0, 40.0])

    assert times == [10.0, 20.0, 30.0, 40.0]


def test_a_clock_that_is_a_little_behind_waits_for_its_turn() -> None:
    assert not needs_point([10.0, 10.0 + SKEW_S], 11.0)
