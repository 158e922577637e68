"""Fixtures of several files, and what clients that are not ours leave behind."""

import gc
import os
import time
import warnings
from collections.abc import AsyncGenerator, Generator
from types import ModuleType

import pytest

from tests.gateway.serving import Serving, serving
from tests.gateway.shared_engine import SharedEngine
from tests.stand_ins.postgres import Postgres, running_postgres

DAY_S = 86_400
ENDS_S = (0, int(18.5 * 3600))
"""Seconds after midnight in UTC at which a day, and with it a month, ends in UTC and in Kolkata."""

LONGEST_S = 120
"""A file that counts per day or month takes less, on a busy machine, too."""


@pytest.fixture(scope="module")
def collected() -> Generator[None]:
    """For clients that never close a connection (Databricks' SDK, MLflow's).

    Their sockets are collected here, where nobody minds, and not in some later test.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def within_one_period() -> None:
    """Wait for the period's end if the file could meet it: rare, and at most for `LONGEST_S`."""
    left = min((end - time.time()) % DAY_S for end in ENDS_S)
    if left < LONGEST_S:
        time.sleep(left + 0.1)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Generator[Postgres]:
    """For all files that need no server of their own; the workers of a run share a template."""
    run = tmp_path_factory.getbasetemp()
    shared = run.parent if "PYTEST_XDIST_WORKER" in os.environ else run
    with running_postgres(shared / "postgres") as server:
        yield server


@pytest.fixture(scope="module")
async def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: SharedEngine
) -> AsyncGenerator[Serving, None]:
    """For all tests of a file. Its `CONFIG` has `{here}` for the shared engine's provider."""
    module: ModuleType = request.node.obj
    config = str(vars(module)["CONFIG"]).format(here=engine.provider)
    async with serving(config, tmp_path_factory.mktemp("run"), engine=engine) as running:
        yield running
