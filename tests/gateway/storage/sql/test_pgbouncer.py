"""The store through PgBouncer in transaction mode; `make nightly` runs all its tests through it."""

import threading
from collections.abc import Generator

import psycopg
import pytest

from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.storage.sql.rows import attempt_row, request_row
from tests.stand_ins.pgbouncer.server import POOL, PgBouncer

CLIENTS, TURNS = 4 * POOL, 6


@pytest.fixture
def url(pgbouncer: PgBouncer) -> str:
    return pgbouncer.new_database()


@pytest.fixture
def store(url: str) -> Generator[SqlStore]:
    found = open_store(Secret(url))
    yield found
    found.close()


def test_more_clients_than_connections_write_and_read_what_each_has_written(url: str) -> None:
    """Each client is a gateway: its transactions run on whichever connection is free."""
    failures: list[Exception] = []
    counts: list[int] = []

    def gateway(number: int) -> None:
        own = open_store(Secret(url))
        try:
            for turn in range(TURNS):
                name = f"{number}-{turn}"
                own.import_rows(
                    f"file-{number}", turn, turn + 1, [request_row(name), attempt_row(name)]
                )
                with own.database.reading() as session:
                    counts.append(session.rows(tuple[int], "SELECT COUNT(*) FROM requests")[0][0])
        except Exception as exc:  # noqa: BLE001  shown below
            failures.append(exc)
        finally:
            own.close()

    threads = [threading.Thread(target=gateway, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert max(counts) == CLIENTS * TURNS


def test_no_setting_of_a_transaction_stays_on_the_connections_of_the_pool(
    store: SqlStore, url: str
) -> None:
    store.prepare()
    with store.database.reading() as session:
        inside = session.rows(tuple[str], "SELECT current_setting('statement_timeout')")
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as other:
        outside = [
            other.execute("SELECT current_setting('statement_timeout')").fetchone()
            for _ in range(2 * POOL)
        ]
        locks = other.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        held = locks.fetchone()

    assert inside == [("1min",)]
    assert outside == [("0",)] * 2 * POOL
    assert held == (0,)
