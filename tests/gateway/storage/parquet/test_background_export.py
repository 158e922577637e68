"""`store.export`: a gateway exports what it records, and of many gateways one at a time.

STROWGER_EXPORT_KILLS is the number of kills in the long test (`make nightly-tests`).
"""

import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.schema.config import Logging
from strowger_gateway.gateway.observability.recording.import_messages import (
    ExportSettings,
    ImportSettings,
    as_line,
)
from strowger_gateway.gateway.storage.parquet.background import BackgroundExport
from strowger_gateway.gateway.storage.parquet.export import MANIFEST
from strowger_gateway.gateway.storage.parquet.turns import turn
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S, Commanded, importer_started
from tests.gateway.config.configs import GOOD, faults
from tests.gateway.forked_commands import forked
from tests.gateway.observability.recording.test_serving_records import answered
from tests.gateway.serving import one_model
from tests.gateway.storage.parquet.test_export import KILLS, Recorded, column, complete
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider

EXPORTED = 'strowger_records_exported_total{table="requests"}'
EXPORT = "store: {export: {to: out, every_s: 1}}"
GATEWAYS = 3


def exported(folder: Path) -> Sequence[object]:
    """The ids of requests that are in files."""
    if not any((folder / "requests").rglob("*.parquet")):
        return []
    return sorted(map(str, column(folder, "requests", "request_id")))


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def running(export: BackgroundExport) -> Generator[None]:
    """In a thread, until the block ends."""
    stopping = threading.Event()
    thread = threading.Thread(target=export.run, args=(stopping,))
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


async def metric(up: Commanded, name: str) -> float:
    async with up.client() as client:
        text = (await client.get("/metrics")).text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


async def until_exported(up: Commanded, folder: Path, rows: int) -> None:
    """Wait until the files have them and the leader knows it."""
    await asyncio.to_thread(until, lambda: len(exported(folder)) == rows)
    async with asyncio.timeout(SOON_S):
        while await metric(up, EXPORTED) < rows:  # noqa: ASYNC110  nothing else reports
            await asyncio.sleep(0.05)


@pytest.mark.anyio
async def test_a_gateway_exports_what_it_records_also_after_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    async with (
        provider() as remote,
        forked(tmp_path / "config.yaml", one_model(remote.base_url, EXPORT)) as up,
        up.client() as client,
    ):
        ids = [await answered(client) for _ in range(3)]
        await until_exported(up, folder, 3)
        os.kill(await importer_started(up.process.pid), signal.SIGKILL)
        ids += [await answered(client) for _ in range(2)]
        await until_exported(up, folder, 5)
        works = await metric(up, "strowger_export_available")
        last = await metric(up, "strowger_export_last_success_timestamp_seconds")

    assert exported(folder) == sorted(ids)
    assert works == 1
    assert abs(last - time.time()) < 600


def test_one_process_at_a_time_has_the_turn(store: SqlStore, url: Secret) -> None:
    other = open_store(url)
    with turn(store.database, url, "s3://key:secret@b/p?region=x") as held:
        assert held is not None
        held()
        with turn(other.database, url, "s3://b/p") as second:
            assert second is None
    with turn(other.database, url, "s3://b/p") as after:
        assert after is not None
    other.close()


def test_a_process_whose_turn_is_lost_stops_before_its_next_write(postgres: Postgres) -> None:
    """The server ends the connection, and another process may have its turn now."""
    url = Secret(postgres.new_database())
    store, other = open_store(url), open_store(url)
    with pytest.raises(StoreUnavailable):
        _lose_the_turn(store, other, url)
    with turn(other.database, url, "out") as now:
        assert now is not None
    store.close()
    other.close()


def _lose_the_turn(store: SqlStore, other: SqlStore, url: Secret) -> None:
    with turn(store.database, url, "out") as held:
        assert held is not None
        with other.database.reading() as session:
            session.rows(
                tuple[bool],
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
        held()


def test_a_gateway_exports_nothing_shortly_after_another(
    store: SqlStore, url: Secret, tmp_path: Path
) -> None:
    recorded = Recorded(store)
    target = tmp_path / "out"
    gateways = [BackgroundExport(store.database, url, str(target), 3600) for _ in range(2)]
    for gateway in gateways:
        recorded.add(4)
        with running(gateway):
            until(lambda one=gateway: one.progress().ended > 0)

    assert [one.progress().rows.get("requests", 0) for one in gateways] == [4, 0]
    assert len({one.progress().ended for one in gateways}) == 1
    assert len(exported(target)) == 4


def test_a_failure_is_logged_once_and_the_export_goes_on_after_it(
    store: SqlStore, url: Secret, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorded = Recorded(store)
    recorded.add(5)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    export = BackgroundExport(store.database, url, str(blocked), 0.05)
    with caplog.at_level(logging.WARNING, "strowger.records"), running(export):
        until(lambda: export.progress().failing)
        time.sleep(0.3)
        blocked.unlink()
        until(lambda: len(exported(blocked)) == 5)
        until(lambda: not export.progress().failing)

    said = [one.getMessage() for one in caplog.records]
    assert len(said) == 2, said
    assert "records are not exported; retrying: store.export.to: " in said[0]
    assert "records are exported again" in said[1]
    assert complete(blocked, recorded.ids)


@pytest.mark.parametrize(
    ("export", "said"),
    [
        ("{to: 'ftp://x/y'}", "store.export.to: must be a folder or s3://BUCKET/PREFIX"),
        ("{to: 's3:///x'}", "store.export.to: must be a folder or s3://BUCKET/PREFIX"),
        ("{to: out, every_s: 0}", "store.export.every_s"),
        ("{every_s: 60}", "store.export.to: is missing"),
    ],
)
def test_a_fault_names_the_field(export: str, said: str) -> None:
    found = faults(f"{GOOD}\nstore: {{export: {export}}}")

    assert len(found) == 1
    assert said in found[0]


class GatewayProcess:
    """The importing process of a gateway, with the settings that a leader gives it."""

    def __init__(self, url: str, folder: Path, number: int) -> None:
        settings = ImportSettings(
            url=url.encode(),
            spool=os.fsencode(folder / f"spool-{number}"),
            max_spool_bytes=1 << 20,
            keep_days=90,
            keep_usage_days=400,
            keep_payload_days=7,
            logging=Logging(format="json"),
            unavailable=False,
            export=ExportSettings(to=os.fsencode(folder / "out"), every_s=0.05),
        )
        self.process = subprocess.Popen(
            (
                sys.executable,
                "-m",
                "strowger_gateway.gateway.observability.recording.import_program",
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(as_line(settings))
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


@pytest.mark.nightly
def test_gateways_that_are_killed_many_times_export_every_row_once(
    postgres: Postgres, tmp_path: Path
) -> None:
    address, draws = postgres.new_database(), random.Random(3)
    store = open_store(Secret(address))
    recorded = Recorded(store)
    recorded.add(1)
    gateways = [GatewayProcess(address, tmp_path, number) for number in range(GATEWAYS)]
    manifest = tmp_path / "out" / MANIFEST
    until(manifest.exists)
    changed = 0
    for at in range(KILLS):
        before = manifest.stat().st_mtime_ns
        recorded.add(20)
        until(lambda seen=before: manifest.stat().st_mtime_ns != seen)
        time.sleep(draws.random() * 0.1)
        gateways[at % GATEWAYS].kill()
        changed += manifest.stat().st_mtime_ns != before
        gateways[at % GATEWAYS] = GatewayProcess(address, tmp_path, at % GATEWAYS)
    until(lambda: len(exported(tmp_path / "out")) >= len(recorded.ids))
    time.sleep(0.5)
    for one in gateways:
        one.kill()
    store.close()

    assert complete(tmp_path / "out", recorded.ids)
    print(f"{KILLS} kills, {len(recorded.ids)} requests, each exported once")
