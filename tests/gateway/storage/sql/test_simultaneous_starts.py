"""Gateways that start on an empty database at the same moment create its tables once.

STROWGER_STARTS is the number of such starts in the long test (`make nightly-tests`).
"""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.schema import MIGRATIONS, VERSION, digest_of
from strowger_gateway.schemas.secret import Secret
from tests.gateway.forked_commands import forked
from tests.gateway.serving import one_model
from tests.gateway.storage.sql.rows import request_row
from tests.stand_ins.pgbouncer.server import PgBouncer
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

STARTS = int(os.environ.get("STROWGER_STARTS", "100"))


def together(url: str, work: Callable[[int, str], None]) -> list[Exception]:
    """Do two gateways' work at the same moment; what failed."""
    failures: list[Exception] = []
    both = threading.Barrier(2)

    def gateway(number: int) -> None:
        try:
            both.wait()
            work(number, url)
        except Exception as exc:  # noqa: BLE001  returned
            failures.append(exc)

    threads = [threading.Thread(target=gateway, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def starts_and_writes(number: int, url: str) -> None:
    store = open_store(Secret(url))
    try:
        store.prepare()
        store.import_rows(f"file-{number}", 0, 1, [request_row(f"r-{number}")])
    finally:
        store.close()


def check_tables(url: str) -> None:
    store = open_store(Secret(url))
    with store.database.reading() as session:
        versions = session.rows(tuple[int, str], VERSION)
        heads = session.rows(tuple[int], "SELECT COUNT(*) FROM audit_head")
        requests = session.rows(tuple[int], "SELECT COUNT(*) FROM requests")
    store.close()

    assert versions == [(len(MIGRATIONS), digest_of(MIGRATIONS))]
    assert (heads, requests) == ([(1,)], [(2,)])


def test_two_gateways_on_an_empty_database(postgres: Postgres) -> None:
    for _ in range(5):
        url = postgres.new_database()

        assert together(url, starts_and_writes) == []
        check_tables(url)


@pytest.mark.nightly
@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pgbouncer"])
def test_two_gateways_on_an_empty_database_a_hundred_times(
    postgres: Postgres, pgbouncer: PgBouncer, *, pooled: bool
) -> None:
    for turn in range(STARTS):
        url = (pgbouncer if pooled else postgres).new_database()

        assert together(url, starts_and_writes) == [], turn
        check_tables(url)


async def test_two_gateways_on_an_empty_database_are_ready_without_a_warning(
    postgres: Postgres, tmp_path: Path
) -> None:
    url = postgres.new_database()
    async with provider() as remote, AsyncExitStack() as stack:
        text = one_model(remote.base_url, f'\nstore: {{url: "{url}"}}')
        files = [tmp_path / name / "config.yaml" for name in ("one", "two")]
        for file in files:
            file.parent.mkdir()
        up = await asyncio.gather(
            *(stack.enter_async_context(forked(file, text)) for file in files)
        )
        lines = [line for one in up for line in one.lines]

    assert not [line for line in lines if "database" in line or "store" in line]
