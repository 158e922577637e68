"""The interval of polls that take the store long."""

import asyncio
from pathlib import Path

import pytest

from strowger_gateway.gateway.experiments.background_jobs import ExperimentJobs
from strowger_gateway.gateway.experiments.polling_interval import PollingInterval
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from tests.gateway.config.configs import read
from tests.gateway.experiments.faulty_store import FaultyDriver
from tests.gateway.experiments.recorded_gateway import config

HUNG_S, SOON_S = 0.3, 60.0


def waits(*polls: tuple[float, bool]) -> list[float]:
    """Return the wait after each poll, given its duration and whether it failed; at least 5 s."""
    polling = PollingInterval(5.0)
    return [polling.wait_s(took, unavailable=failed) for took, failed in polls]


def test_slow_polls_take_a_twentieth_of_the_time() -> None:
    assert waits(*[(1.0, False)] * 3)[1:] == [20.0, 20.0]
    assert waits(*[(0.01, False)] * 3) == [5.0, 5.0, 5.0]


def test_after_an_outage_the_next_poll_is_not_delayed() -> None:
    """A poll that failed after a minute, or a single slow poll, does not count as its duration."""
    assert waits((0.1, False), (3.0, True), (0.1, False)) == [5.0, 5.0, 5.0]
    assert waits((0.1, False), (65.0, True), (0.1, False)) == [5.0, 65.0, 5.0]
    assert waits((0.1, False), (4.0, False), (0.1, False)) == [5.0, 5.0, 5.0]


class RecordingInterval(PollingInterval):
    """polls: the duration of each, whether it failed, and the wait after it."""

    def __init__(self, every_s: float) -> None:
        super().__init__(every_s)
        self.polls: list[tuple[float, bool, float]] = []

    def wait_s(self, took: float, *, unavailable: bool) -> float:
        wait = super().wait_s(took, unavailable=unavailable)
        self.polls.append((took, unavailable, wait))
        return wait


@pytest.mark.anyio
@pytest.mark.parametrize("fails", [False, True], ids=["and went on", "and was given up"])
async def test_harm_limits_are_checked_soon_after_a_database_hung(
    fails: bool, tmp_path: Path
) -> None:
    """They do not wait for twenty times as long as it hung."""
    experiments = read(config("http://127.0.0.1:9/v1")).experiments
    driver, polling = FaultyDriver(tmp_path / "strowger.db"), RecordingInterval(0.01)
    store = SqlStore(driver)
    store.prepare()
    jobs = ExperimentJobs(
        store, lambda: experiments, shown=lambda: False, check_interval_s=0.01, polling=polling
    )
    jobs.start()
    driver.silent = True
    await asyncio.to_thread(driver.asked.wait)
    await asyncio.sleep(HUNG_S)

    before, driver.failing, driver.silent = len(polling.polls), fails, False
    driver.over.set()
    async with asyncio.timeout(SOON_S):
        while len(polling.polls) == before:  # noqa: ASYNC110  a thread's doing
            await asyncio.sleep(0.01)
    await jobs.close()
    store.close()

    took, failed, wait = polling.polls[before]
    assert (took >= HUNG_S, failed) == (True, fails)
    assert wait <= took
