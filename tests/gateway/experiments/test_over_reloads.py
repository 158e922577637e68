"""The state of experiments when the configuration changes and the store is unreachable."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from tests.gateway.config.configs import read
from tests.gateway.experiments.faulty_store import FaultyDriver
from tests.gateway.experiments.recorded_gateway import ARMS, Rows, config

pytestmark = pytest.mark.anyio

NEVER_S = 1000.0
FIRST = read(config("http://127.0.0.1:9/v1"))
RAMPED = read(config("http://127.0.0.1:9/v1", ARMS.replace("weight: 50}", "weight: 90}")))
EDITED = read(config("http://127.0.0.1:9/v1", more="    planned: 500"))


class Process:
    """The experiments of a serving process, which polls when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.driver = FaultyDriver(folder / "strowger.db")
        self.store = SqlStore(self.driver)
        self._folder = folder
        self._runtime = Runtime(FIRST, run_dir=folder)
        self.access = StoreAccess(self.store)
        self.trials = ExperimentService(
            self.access,
            Rows("unused"),
            self._runtime.routing.experiments,
            lambda: self._runtime.config.experiments,
            poll_interval_s=NEVER_S,
        )

    async def reload(self, new: Config) -> None:
        runtime = Runtime(new, run_dir=self._folder, before=self._runtime)
        await self.trials.prepare(new.experiments)
        self._runtime = runtime

    def served(self) -> str:
        """Return why a request of a unit is not enrolled; "" if it is."""
        trial = self._runtime.planner.experiments["chat"]
        request = ChatRequest(model="chat", messages=(Message(role="user", content="hi"),))
        enrolment = trial.enrol(request, RequestFacts(headers=[(b"x-session-id", b"anne")]))
        if enrolment.participation.exclusion is None:
            return ""
        assert enrolment.arm is trial.control
        return enrolment.participation.exclusion.code


@pytest.fixture
async def process(tmp_path: Path) -> AsyncGenerator[Process, None]:
    found = Process(tmp_path)
    await found.trials.start()
    yield found
    await found.trials.close()
    found.access.close()
    found.store.close()


async def test_a_pause_under_another_configuration_survives_an_unreachable_store(
    process: Process,
) -> None:
    """No unit is assigned to an arm that was paused in the meantime."""
    at_first = process.served()
    await process.reload(RAMPED)
    process.store.pause("trial", "too dear", 1.0)
    await process.trials.refresh()
    paused = process.served()

    process.driver.failing = True
    await process.reload(FIRST)
    unheard = process.served()
    process.driver.failing = False
    await process.trials.refresh()

    assert (at_first, paused, unheard, process.served()) == ("", "paused", "unknown", "paused")


async def test_an_edit_that_changes_no_experiment_leaves_it_as_it_stood(process: Process) -> None:
    process.driver.failing = True
    await process.reload(EDITED)
    running = process.served()
    process.driver.failing = False
    process.store.pause("trial", "too dear", 1.0)
    await process.trials.refresh()
    process.driver.failing = True
    await process.reload(FIRST)

    assert (running, process.served()) == ("", "paused")
