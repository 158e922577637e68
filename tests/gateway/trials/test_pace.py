"""How often the store is asked for what takes it long."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.config.experiment import Experiment
from gateway.store.sql import SqlStore
from gateway.trials.minding import Minding
from gateway.trials.pace import EFFORT, Pace
from tests.gateway.config.configs import read
from tests.gateway.trials.faulty_store import FaultyDriver
from tests.gateway.trials.trialling import config

HUNG_S = 1.0


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


@pytest.mark.anyio
@pytest.mark.parametrize("fails", [False, True], ids=["and went on", "and was given up"])
async def test_guardrails_are_looked_at_soon_after_a_database_hung(
    fails: bool, tmp_path: Path
) -> None:
    """Long before a twentieth of the time would be over."""
    looks = 0

    def experiments() -> Sequence[Experiment]:
        nonlocal looks
        looks += 1
        return read(config("http://127.0.0.1:9/v1")).experiments

    driver = FaultyDriver(tmp_path / "strowger.db")
    store = SqlStore(driver)
    store.prepare()
    minding = Minding(store, experiments, shown=lambda: False, judge_s=0.01)
    minding.start()
    driver.silent = True
    await asyncio.to_thread(driver.asked.wait)
    await asyncio.sleep(HUNG_S)

    held_up, driver.failing, driver.silent = looks, fails, False
    driver.over.set()
    async with asyncio.timeout(EFFORT * HUNG_S * 0.75):
        while looks < held_up + 2:  # noqa: ASYNC110  a thread's doing
            await asyncio.sleep(0.01)
    await minding.close()
    store.close()
