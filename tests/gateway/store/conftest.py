"""One store on each database, for tests that hold for both."""

from collections.abc import Generator
from pathlib import Path

import pytest

from gateway.store.open import open_store
from gateway.store.sql import SqlStore
from schemas.secret import Secret
from tests.stand_ins.postgres import Postgres, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Generator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Secret:
    """Of an empty database."""
    if request.param == "sqlite":
        return Secret(f"sqlite:///{tmp_path / 'store.db'}")
    server: Postgres = request.getfixturevalue("postgres")
    return Secret(server.new_database())


@pytest.fixture
def store(url: Secret) -> Generator[SqlStore]:
    found = open_store(url)
    yield found
    found.close()
