"""One store on each database, for tests that hold for both."""

from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.stand_ins.pgbouncer.server import PgBouncer, running_pgbouncer
from tests.stand_ins.postgres import Postgres


@pytest.fixture(scope="session")
def pgbouncer(postgres: Postgres) -> Generator[PgBouncer]:
    with running_pgbouncer(postgres) as pool:
        yield pool


@pytest.fixture(
    params=["sqlite", "postgresql", pytest.param("pgbouncer", marks=pytest.mark.nightly)]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Secret:
    """Of an empty database."""
    if request.param == "sqlite":
        return Secret(f"sqlite:///{tmp_path / 'store.db'}")
    if request.param == "postgresql":
        postgres: Postgres = request.getfixturevalue("postgres")
        return Secret(postgres.empty_database())
    pool: PgBouncer = request.getfixturevalue("pgbouncer")
    return Secret(pool.new_database())


@pytest.fixture
def store(url: Secret) -> Generator[SqlStore]:
    found = open_store(url)
    yield found
    found.close()
