"""A PostgreSQL server for the tests of stored responses."""

from collections.abc import Generator

import pytest

from tests.stand_ins.postgres import Postgres, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Generator[Postgres]:
    with running_postgres() as server:
        yield server
