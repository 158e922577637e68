"""How often the store is asked for what takes it long."""

from gateway.trials.pace import Pace


def rests(*looks: tuple[float, bool]) -> list[float]:
    """After looks that took so long, and were in vain or not, five seconds apart at least."""
    pace = Pace(5.0)
    return [pace.rest_s(took, away=away) for took, away in looks]


def test_looks_that_take_long_take_a_twentieth_of_the_time() -> None:
    assert rests(*[(1.0, False)] * 3)[1:] == [20.0, 20.0]
    assert rests(*[(0.01, False)] * 3) == [5.0, 5.0, 5.0]


def test_after_an_outage_the_next_look_comes_as_soon_as_ever() -> None:
    """A minute in vain, or once until the database went on, is nothing that a look takes."""
    assert rests((0.1, False), (3.0, True), (0.1, False)) == [5.0, 5.0, 5.0]
    assert rests((0.1, False), (65.0, True), (0.1, False)) == [5.0, 65.0, 5.0]
    assert rests((0.1, False), (4.0, False), (0.1, False)) == [5.0, 5.0, 5.0]
