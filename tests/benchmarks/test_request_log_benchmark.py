"""The store of the benchmark of searches has what its views look for, and each view finds it."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.request_log.made_up import fill, rows
from benchmarks.request_log.views import FILTERS
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.request_log.filters import matches
from strowger_gateway.gateway.storage.sql.request_log.search import RequestSearch
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.stand_ins.postgres import running_postgres

REQUESTS = 120_000


def test_it_prints_a_line_for_each_kind_of_filter() -> None:
    command = (sys.executable, "-m", "benchmarks.request_log", "--requests", "400", "--rounds", "1")
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert [line[:24].strip() for line in printed.splitlines()[2:]] == list(FILTERS)


def found_by(store: SqlStore) -> None:
    """Compare what each filter finds, page by page, with a look at every row."""
    fill(store, REQUESTS)
    search = RequestSearch(store.database)
    made = [(row, [one.backend for one in tried]) for row, tried in rows(REQUESTS)]
    for wanted in (one for some in FILTERS.values() for one in some if one.payload is None):
        expected = [row.request_id for row, tried in made if matches(wanted, row, tried)]
        if len(expected) > REQUESTS // 10:
            continue  # pages of most rows take minutes
        page = search.page(wanted, 1_000)
        ids = [one.request_id for one in page.requests]
        while page.next is not None:
            page = search.page(wanted, 1_000, page.next)
            ids += [one.request_id for one in page.requests]
        assert ids == expected[::-1], wanted
        totals = search.totals(wanted)
        assert totals.since is not None or totals.requests == len(expected), wanted


@pytest.mark.nightly
def test_every_view_finds_its_requests_in_sqlite(tmp_path: Path) -> None:
    store = open_store(Secret(f"sqlite:///{tmp_path}/store.db"))
    found_by(store)
    store.close()


@pytest.mark.nightly
def test_every_view_finds_its_requests_in_postgresql(tmp_path: Path) -> None:
    with running_postgres(tmp_path / "postgres") as server:
        store = open_store(Secret(server.new_database()))
        found_by(store)
        store.close()
