"""A hanging PostgreSQL counts as unreachable within seconds and delays no exit; a slow one not."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest

from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import driver_of, open_store
from strowger_gateway.gateway.storage.sql.postgres import DOUBT_S
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.stand_ins.postgres import Postgres

pytestmark = pytest.mark.usefixtures("hanging")


@pytest.fixture
def store(postgres: Postgres) -> Generator[SqlStore]:
    """A store with an open connection that waits two seconds for an answer."""
    found = open_store(Secret(f"{postgres.new_database()}&connect_timeout=2"))
    found.prepare()
    yield found
    found.close()


@pytest.fixture
def hanging(store: SqlStore, postgres: Postgres) -> Generator[None]:
    postgres.hang()
    yield
    postgres.go_on()


def test_a_hanging_server_counts_as_unreachable_within_seconds_and_recovers(
    store: SqlStore, postgres: Postgres
) -> None:
    """While it hangs."""
    with pytest.raises(StoreUnavailable, match="does not answer"):
        store.pauses()

    postgres.go_on()

    assert store.pauses() == {}


def test_closing_the_store_ends_what_waits_for_a_server_that_hangs(store: SqlStore) -> None:
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(store.pauses)
        sleep(0.2)
        store.close()
        error = asked.exception(timeout=60)

    assert isinstance(error, StoreUnavailable)
    assert "the server does not answer" not in str(error), "it has waited to the end"


def test_a_statement_that_takes_its_time_is_waited_for(postgres: Postgres) -> None:
    postgres.go_on()
    driver = driver_of(Secret(postgres.new_database()))
    connection = driver.connect()

    found = connection.execute(f"SELECT pg_sleep({DOUBT_S + 0.5})", ()).fetchall()

    connection.close()
    assert len(found) == 1
