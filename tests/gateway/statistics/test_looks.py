"""The looks of harm limits: a grid of requests, and a level that is never exceeded."""

import pytest

from strowger_gateway.gateway.statistics.looks import LOOKS_ALPHA, alpha, passed, share


def test_all_looks_together_spend_the_level_and_no_more() -> None:
    spent = [alpha(0, due) for due in range(500)]

    assert spent == sorted(spent)
    assert spent[-1] <= LOOKS_ALPHA
    assert alpha(0, 100_000) == pytest.approx(LOOKS_ALPHA, rel=1e-3)


@pytest.mark.parametrize("spent", [0, 5, 13, 14, 21, 22, 40])
def test_one_test_for_several_looks_spends_what_they_would_have(spent: int) -> None:
    one_by_one = sum(alpha(look, look + 1) for look in range(spent, spent + 9))

    assert alpha(spent, spent + 9) == pytest.approx(one_by_one)
    assert alpha(spent, spent) == 0


def test_a_look_is_due_with_every_half_more_requests() -> None:
    due = [passed(requests) for requests in (0, 19, 20, 29, 30, 44, 45, 3_892, 3_893, 99_758)]

    assert due == [0, 0, 1, 1, 2, 2, 3, 13, 14, 22]
    assert [share(look) for look in (0, 13, 14, 21)] == [1 / 60, 1 / 60, 0.08, 0.08]
