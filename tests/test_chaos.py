"""The chaos run, short; how long ones ended is in docs/benchmarks.md."""

from pathlib import Path

import pytest

from benchmarks.chaos.fleet import Outcome
from benchmarks.chaos.run import run
from benchmarks.chaos.verdict import EARLY, Found, Timeline, shown


@pytest.mark.nightly
@pytest.mark.anyio
async def test_no_request_is_refused_while_an_upstream_serves_and_no_answer_is_wrong(
    tmp_path: Path,
) -> None:
    found = await run(tmp_path, 25.0, seed=2, clients=16)

    assert found.passed, shown(found)
    assert found.requests > 200
    assert found.kinds["answered"] > 100


def refused(begun: float, ended: float) -> Outcome:
    return Outcome(kind="refused", begun=begun, ended=ended, status=503, attempts=1)


def test_the_verdict_knows_a_refusal_that_need_not_have_been() -> None:
    timeline = Timeline(places=2)
    timeline.changes = [[(0.0, True), (5.0, False)], [(0.0, False), (8.0, True)]]
    outcomes = [refused(1, 2), refused(4, 6), refused(5, 9), refused(9, 10)]

    found = Found.of(outcomes, timeline, set(), 1.0)

    assert found.kinds == {EARLY: 2, "refused while none served all along": 2}
    assert not found.passed
