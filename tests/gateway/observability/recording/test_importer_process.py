"""The process that imports records: it may die at any time, and so may the gateway."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.config import Logging
from strowger_gateway.gateway.observability.recording.import_messages import (
    ImportProgress,
    ImportSettings,
    LogLevel,
    StopImport,
    as_line,
    progress_decoder,
)
from strowger_gateway.gateway.observability.recording.importer_process import ImporterProcess
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S, Commanded, importer_of, importer_started
from tests.gateway.forked_commands import forked, printed
from tests.gateway.observability.recording.test_serving_records import (
    ALONE,
    TWO,
    answered,
    killed_after,
    known,
    used_in,
)
from tests.gateway.observability.recording.written import packed
from tests.gateway.serving import one_model
from tests.gateway.storage.sql.rows import request_row
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio


async def figure(up: Commanded, name: str) -> float:
    """One of the metrics of the import."""
    async with up.client() as client:
        text = (await client.get("/metrics")).text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


async def until_imported(up: Commanded, rows: int) -> None:
    async with asyncio.timeout(SOON_S):
        while await figure(up, "strowger_records_imported_total") < rows:  # noqa: ASYNC110  nothing else reports
            await asyncio.sleep(0.05)


async def until_gone(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    async with asyncio.timeout(SOON_S):
        while os.path.exists(f"/proc/{pid}"):  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("workers", [ALONE, TWO])
async def test_records_are_imported_while_the_gateway_serves_and_the_metrics_send_line(
    workers: str, tmp_path: Path
) -> None:
    async with (
        provider() as remote,
        forked(tmp_path / "config.yaml", one_model(remote.base_url, workers)) as up,
        up.client() as client,
    ):
        ids = [await answered(client) for _ in range(3)]
        await until_imported(up, 6)

        assert known(tmp_path, ids) == set(ids)
        assert await figure(up, "strowger_store_available") == 1
        assert await figure(up, "strowger_records_rejected_total") == 0
        assert await figure(up, "strowger_spool_waiting_bytes") == 0
        assert await figure(up, "strowger_spool_bytes") > 0
        assert await figure(up, "strowger_import_lag_seconds") < SOON_S


async def test_an_importer_that_is_killed_while_requests_arrive_costs_and_repeats_no_record(
    tmp_path: Path,
) -> None:
    async with (
        provider() as remote,
        forked(tmp_path / "config.yaml", one_model(remote.base_url, ALONE)) as up,
        up.client() as client,
    ):
        ids: list[str] = []
        killed: set[int] = set()
        for _ in range(3):
            since = len(up.lines)
            killed.add(pid := await importer_started(up.process.pid))
            ids += [await answered(client) for _ in range(40)]
            os.kill(pid, signal.SIGKILL)
            ids += [await answered(client) for _ in range(40)]
            await up.said("the importing process was killed by signal 9; restarting", since=since)
        await importer_started(up.process.pid)
        counted = await figure(up, "strowger_records_imported_total")
        await asyncio.sleep(1.5)
        ids.append(await answered(client))
        assert await figure(up, "strowger_records_imported_total") >= counted
        up.process.terminate()
        assert await asyncio.wait_for(up.process.wait(), SOON_S) == 0

    assert len(killed) == 3
    assert known(tmp_path, ids) == set(ids)
    assert sum(row.requests for row in used_in(tmp_path)) == len(ids)
    assert up.plain == []


async def test_sigterm_loses_no_record_even_if_the_importer_has_just_died(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        forked(tmp_path / "config.yaml", one_model(remote.base_url, ALONE)) as up,
        up.client() as client,
    ):
        pid = await importer_started(up.process.pid)
        ids = [await answered(client) for _ in range(5)]
        os.kill(pid, signal.SIGKILL)
        up.process.terminate()
        assert await asyncio.wait_for(up.process.wait(), SOON_S) == 0

    assert known(tmp_path, ids) == set(ids)
    assert not list((tmp_path / "strowger-spool").glob("*.rows"))


async def test_signals_of_the_terminal_do_not_end_the_importer_before_the_gateway(
    tmp_path: Path,
) -> None:
    async with (
        provider() as remote,
        forked(tmp_path / "config.yaml", one_model(remote.base_url, ALONE)) as up,
        up.client() as client,
    ):
        pid = await importer_started(up.process.pid)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
        ids = [await answered(client) for _ in range(5)]
        await until_imported(up, 10)
        assert importer_of(up.process.pid) == pid
        up.process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(up.process.wait(), SOON_S) == 0

    assert known(tmp_path, ids) == set(ids)
    assert not any("restarting" in line for line in up.lines)


async def test_the_importer_of_a_killed_gateway_exits_and_the_next_start_imports_what_is_left(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config.yaml"
    async with provider() as remote:
        text = one_model(remote.base_url, ALONE)
        async with forked(config, text) as up, up.client() as client:
            pid = await importer_started(up.process.pid)
            os.kill(pid, signal.SIGSTOP)
            ids = [await answered(client) for _ in range(5)]
            await asyncio.sleep(2.0)
            up.process.kill()
            await asyncio.wait_for(up.process.wait(), SOON_S)
            os.kill(pid, signal.SIGKILL)
        assert list((tmp_path / "strowger-spool").glob("*.rows"))
        async with forked(config, text) as up:
            pid = await importer_started(up.process.pid)
            await until_imported(up, 10)
            up.process.kill()
            await asyncio.wait_for(up.process.wait(), SOON_S)
            await until_gone(pid)

    assert known(tmp_path, ids) == set(ids)
    assert sum(row.requests for row in used_in(tmp_path)) == len(ids)


async def test_a_reload_changes_the_log_level_of_the_importer_too(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        forked(tmp_path / "config.yaml", one_model(remote.base_url, ALONE)) as up,
    ):
        torn(tmp_path, "r0")
        await up.said("ignored the last 1 bytes")
        up.edit(one_model(remote.base_url, f"{ALONE}\nlogging: {{level: error}}"))
        async with asyncio.timeout(SOON_S):
            for number in count(1):
                warnings = len(up.lines)
                torn(tmp_path, f"r{number}")
                await until_imported(up, number + 1)
                await asyncio.sleep(0.2)
                if len(up.lines) == warnings:
                    break


async def test_records_are_imported_in_a_folder_whose_name_is_not_unicode(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"na\xffme")
    folder.mkdir()
    async with provider() as remote:
        answers = await killed_after(one_model(remote.base_url), folder, 3, signal.SIGTERM, 0.0)
    store = open_store(Secret(f"sqlite:///{folder / 'strowger.db'}"))
    audited = store.audit.after(0)
    store.close()

    assert answers == sum(row.requests for row in used_in(folder)) == 3
    assert [row.action for row in audited] == ["gateway.start", "gateway.stop"]
    assert all(row.target.endswith(r"/na\udcffme/config.yaml") for row in audited)


async def test_the_metrics_show_an_importer_that_does_nothing(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        forked(tmp_path / "config.yaml", one_model(remote.base_url, ALONE)) as up,
        up.client() as client,
    ):
        await answered(client)
        await until_imported(up, 2)
        pid = await importer_started(up.process.pid)
        os.kill(pid, signal.SIGSTOP)
        ids = [await answered(client)]
        await asyncio.sleep(3.0)
        lag = await figure(up, "strowger_import_lag_seconds")
        waiting = await figure(up, "strowger_spool_waiting_bytes")
        os.kill(pid, signal.SIGCONT)
        await until_imported(up, 4)

    assert lag > 2
    assert waiting > 0
    assert known(tmp_path, ids) == set(ids)


@pytest.mark.parametrize("workers", [ALONE, TWO])
async def test_readiness_and_the_metrics_show_an_importer_that_crashes_again_and_again(
    workers: str, tmp_path: Path
) -> None:
    async with (
        provider() as remote,
        forked(tmp_path / "config.yaml", one_model(remote.base_url, workers)) as up,
        up.client() as client,
    ):
        healthy = (await client.get("/readyz")).json()
        async with asyncio.timeout(SOON_S):
            # The next process starts four seconds later, which is enough to look around.
            while (restarts := await figure(up, "strowger_importer_restarts_total")) < 4:
                if (pid := importer_of(up.process.pid)) is not None:
                    os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0.05)
            while "4 restarts" not in (ready := await client.get("/readyz")).text:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        alive = await figure(up, "strowger_importer_up")
        ids = [await answered(client)]
        status, told, _ = await printed("health", "--url", up.url)
        await until_imported(up, 2)
        async with asyncio.timeout(SOON_S):
            while "records" in (await client.get("/readyz")).json():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        again = await figure(up, "strowger_importer_up")

    assert "records" not in healthy
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    problem = ready.json()["records"]
    why = "the importing process was killed by signal 9 (4 restarts so far)"
    assert problem == f"{why}; records wait in the spool"
    assert (alive, again, restarts) == (0, 1, 4)
    assert status == 0
    assert f"records: {problem}" in told
    assert known(tmp_path, ids) == set(ids)


def settings(folder: Path, level: str = "info") -> ImportSettings:
    return ImportSettings(
        url=os.fsencode(f"sqlite:///{folder / 'strowger.db'}"),
        spool=os.fsencode(folder / "strowger-spool"),
        max_spool_bytes=1 << 30,
        keep_days=90,
        keep_usage_days=400,
        keep_payload_days=7,
        logging=Logging(format="json", level=level),  # pyright: ignore[reportArgumentType]
        unavailable=False,
    )


@contextmanager
def importing(folder: Path) -> Generator["subprocess.Popen[bytes]"]:
    """The importing process alone, with its settings, as the leader starts it."""
    process = subprocess.Popen(
        (sys.executable, "-m", "strowger_gateway.gateway.observability.recording.import_program"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        send_line(process, as_line(settings(folder)))
        yield process


def send_line(process: "subprocess.Popen[bytes]", line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


def torn(folder: Path, *names: str) -> None:
    """A finished file in the spool, whose writer died while it wrote the last row."""
    file = Spool(folder / "strowger-spool").create()
    file.append(packed([request_row(name) for name in names]) + b"\x07")
    file.close()


def test_settings_that_the_importer_would_reject_are_an_error_before_it_starts(
    tmp_path: Path,
) -> None:
    text = replace(Logging(), format="text")  # a value of no schema, which `replace` lets pass

    with pytest.raises(msgspec.ValidationError, match=r"Invalid enum value 'text' - at `\$.log"):
        ImporterProcess(replace(settings(tmp_path), logging=text))


def test_an_importer_without_a_leader_says_so_and_imports_what_is_there(tmp_path: Path) -> None:
    torn(tmp_path, "r1", "r2")

    with importing(tmp_path) as process:
        _, said = process.communicate(timeout=SOON_S)

    assert process.returncode == 0
    assert b"lost the leader process; importing the rest and exiting" in said
    assert known(tmp_path, ["r1", "r2"]) == {"r1", "r2"}


def test_an_importer_that_is_told_to_stop_imports_what_is_there_without_a_word(
    tmp_path: Path,
) -> None:
    torn(tmp_path, "r1")

    with importing(tmp_path) as process:
        send_line(process, as_line(LogLevel(level=40)) + as_line(StopImport()))
        _, said = process.communicate(timeout=SOON_S)

    assert (process.returncode, said) == (0, b""), "the warning of the torn file is not an error"
    assert known(tmp_path, ["r1"]) == {"r1"}


def test_an_importer_reports_what_it_has_imported(tmp_path: Path) -> None:
    torn(tmp_path, "r1", "r2")

    with importing(tmp_path) as process:
        assert process.stdout is not None
        reports = (progress_decoder.decode(line) for line in process.stdout)
        progress = next(one for one in reports if one.whole_s_ago is not None)
        send_line(process, as_line(StopImport()))

    assert progress == ImportProgress(
        unavailable=False,
        imported=2,
        rejected=0,
        whole_s_ago=progress.whole_s_ago,
        positions={},
    )
