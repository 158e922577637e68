"""How often the store is asked for what takes it long."""

import asyncio
from pathlib import Path

import pytest

from gateway.experiments.service.background_jobs import ExperimentJobs
from gateway.experiments.service.polling_interval import PollingInterval
from gateway.store.sql import SqlStore
from tests.gateway.config.configs import read
from tests.gateway.experiments.service.faulty_store import FaultyDriver
from tests.gateway.experiments.service.trialling import config

HUNG_S, SOON_S = 0.3, 60.0


def rests(*looks: tuple[float, bool]) -> list[float]:
    """After looks that took so long, and were in vain or not, five seconds apart at least."""
    pace = PollingInterval(5.0)
    return [pace.wait_s(took, away=away) for took, away in looks]


def test_slow_polls_take_a_twentieth_of_the_time() -> None:
    assert rests(*[(1.0, False)] * 3)[1:] == [20.0, 20.0]
    assert rests(*[(0.01, False)] * 3) == [5.0, 5.0, 5.0]


def test_after_an_outage_the_next_look_comes_as_soon_as_ever() -> None:
    """A minute in vain, or once until the database went on, is nothing that a look takes."""
    assert rests((0.1, False), (3.0, True), (0.1, False)) == [5.0, 5.0, 5.0]
    assert rests((0.1, False), (65.0, True), (0.1, False)) == [5.0, 65.0, 5.0]
    assert rests((0.1, False), (4.0, False), (0.1, False)) == [5.0, 5.0, 5.0]


class Noted(PollingInterval):
    """looks: what each took, whether it was in vain, and the rest after it."""

    def __init__(self, every_s: float) -> None:
        super().__init__(every_s)
        self.looks: list[tuple[float, bool, float]] = []

    def wait_s(self, took: float, *, away: bool) -> float:
        rest = super().wait_s(took, away=away)
        self.looks.append((took, away, rest))
        return rest


@pytest.mark.anyio
@pytest.mark.parametrize("fails", [False, True], ids=["and went on", "and was given up"])
async def test_guardrails_are_checked_soon_after_a_database_hung(
    fails: bool, tmp_path: Path
) -> None:
    """And not after twenty times as long as it hung."""
    experiments = read(config("http://127.0.0.1:9/v1")).experiments
    driver, pace = FaultyDriver(tmp_path / "strowger.db"), Noted(0.01)
    store = SqlStore(driver)
    store.prepare()
    jobs = ExperimentJobs(store, lambda: experiments, shown=lambda: False, judge_s=0.01, pace=pace)
    jobs.start()
    driver.silent = True
    await asyncio.to_thread(driver.asked.wait)
    await asyncio.sleep(HUNG_S)

    before, driver.failing, driver.silent = len(pace.looks), fails, False
    driver.over.set()
    async with asyncio.timeout(SOON_S):
        while len(pace.looks) == before:  # noqa: ASYNC110  a thread's doing
            await asyncio.sleep(0.01)
    await jobs.close()
    store.close()

    took, away, rest = pace.looks[before]
    assert (took >= HUNG_S, away) == (True, fails)
    assert rest <= took
