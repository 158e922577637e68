"""`strowger store copy`: every table of a database in another one, row by row the same."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from strowger_gateway.gateway.audit.event import Actor
from strowger_gateway.gateway.storage.copying.copy import StoreCopy
from strowger_gateway.gateway.storage.copying.tables import tables
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.schema import MIGRATIONS
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret
from tests.gateway.cli.command_line import run
from tests.gateway.storage.copying.filled import AUDITED, contents, digests, fill, sqlite
from tests.stand_ins.postgres import Postgres

TRIALS = int(os.environ.get("STROWGER_TRIALS", "0"))
TELLS_ITS_MEMORY = """
import atexit
atexit.register(lambda: print(open("/proc/self/status").read()))
from strowger_gateway.gateway.cli import main
main()
"""
NewUrl = Callable[[str], Secret]


@pytest.fixture
def new(tmp_path: Path, request: pytest.FixtureRequest) -> NewUrl:
    """Return the address of a new database of a kind."""
    made = 0

    def url(kind: str) -> Secret:
        nonlocal made
        made += 1
        if kind == "sqlite":
            return sqlite(tmp_path, f"store-{made}")
        postgres: Postgres = request.getfixturevalue("postgres")
        return Secret(postgres.empty_database())  # no test has two

    return url


def copied(source: Secret, target: Secret, *options: str) -> str:
    """Run the command; return its output."""
    result = run("store", "copy", "--from", source.reveal(), "--to", target.reveal(), *options)
    assert result.exit_code == 0, result.output
    return result.output


def refused(source: Secret, target: Secret, *options: str) -> str:
    result = run("store", "copy", "--from", source.reveal(), "--to", target.reveal(), *options)
    assert result.exit_code == 1, result.output
    return result.output


def test_every_table_of_the_schema_is_copied() -> None:
    created = [
        statement.split()[2]
        for step in MIGRATIONS
        for statement in step
        if statement.startswith("CREATE TABLE")
    ]

    assert [table.name for table in tables()] == created
    assert all(table.key or len(table.initial) == 1 for table in tables())


@pytest.mark.parametrize(
    ("kind", "other"),
    [("sqlite", "postgresql"), ("postgresql", "sqlite"), ("sqlite", "sqlite")],
)
def test_a_copy_has_the_same_rows_and_its_audit_log_verifies(
    new: NewUrl, kind: str, other: str
) -> None:
    source, target = new(kind), new(other)
    fill(source, 5, {"requests": 700})
    before = contents(source)

    output = copied(source, target, "--open")
    after = contents(target)

    assert all(before[table.name] for table in tables())
    for table in tables():
        if table.name not in AUDITED:
            assert after[table.name] == before[table.name], table.name
    assert after["audit_rows"][:3] == before["audit_rows"]
    assert after["audit_rows"][3][4] == "store.copy"
    assert "audit log: 3 rows verified" in output
    assert "requests                  700" in output


def test_a_switch_closes_the_source_for_gateways_that_have_it_open(new: NewUrl) -> None:
    source, target = new("sqlite"), new("postgresql")
    fill(source, 2)
    running = open_store(source)
    running.pause("trial", "before", 1.0)

    copied(source, target, "--switch")
    with pytest.raises(StoreUnavailable, match="has moved to PostgreSQL") as caught:
        running.pause("other", "after", 2.0)
    read = running.pauses()
    running.close()
    with pytest.raises(InvalidConfig, match=r"set|store\.moved_from"):
        open_store(source).prepare()
    moved = open_store(target)
    moved.pause("other", "after", 2.0)

    assert caught.value.fault == "read_only"
    assert "trial" in read
    assert "other" in moved.pauses()
    moved.close()
    assert "continues it" in copied(source, target, "--switch")


def test_a_switch_of_postgresql_waits_for_changes_in_flight(new: NewUrl) -> None:
    """A transaction that has begun to write is complete before the last comparison."""
    source, target = new("postgresql"), new("sqlite")
    fill(source, 2)
    running = open_store(source)
    with running.database.writing(alone=False) as session:
        session.run("UPDATE issued_key_uses SET last_used = 5")
        words = [sys.executable, "-m", "strowger_gateway.gateway.cli", "store", "copy", "--switch"]
        environment = {
            **os.environ,
            "STROWGER_COPY_FROM": source.reveal(),
            "STROWGER_COPY_TO": target.reveal(),
        }
        with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as moving:
            assert moving.stderr is not None
            for line in moving.stderr:
                if "closed for writers" in line:
                    break
            time.sleep(0.2)
            session.run("UPDATE issued_key_uses SET last_used = 6")
            session._connection.execute("COMMIT", ())  # pyright: ignore[reportPrivateUsage]
            moving.communicate()
            session._connection.execute("BEGIN", ())  # pyright: ignore[reportPrivateUsage]
    running.close()

    assert moving.returncode == 0
    assert {row[1] for row in contents(target)["issued_key_uses"]} == {6.0}


def test_a_store_moves_back(new: NewUrl) -> None:
    here, there = new("sqlite"), new("postgresql")
    fill(here, 3)
    copied(here, there, "--switch")
    store = open_store(there)
    store.pause("since", "the move", 1.0)
    store.close()

    copied(there, here, "--switch")

    store = open_store(here)
    assert "since" in store.pauses()
    store.close()
    with pytest.raises(InvalidConfig, match="has moved to"):
        open_store(there).prepare()


def test_a_copy_is_brought_up_to_date_and_is_closed_until_then(new: NewUrl) -> None:
    source, target = new("sqlite"), new("postgresql")
    fill(source, 3, {"requests": 600})
    copied(source, target)
    with pytest.raises(InvalidConfig, match="is an unfinished copy of"):
        open_store(target).prepare()
    with closing(sqlite3.connect(source.reveal().removeprefix("sqlite:///"))) as gateway, gateway:
        gateway.execute("DELETE FROM requests WHERE batch < 3")
        gateway.execute("DELETE FROM experiment_pauses")
        gateway.execute("UPDATE spend SET nanos = nanos + 1")
        gateway.execute("INSERT INTO turns VALUES ('new', 1.0)")
    before = contents(source)

    copied(source, target, "--switch")

    after = contents(target)
    for table in tables():
        if table.name not in AUDITED:
            assert after[table.name] == before[table.name], table.name


def test_values_that_postgresql_does_not_accept_are_changed_or_left_out_and_named(
    new: NewUrl, tmp_path: Path
) -> None:
    source, target = new("sqlite"), new("postgresql")
    fill(source, 3)
    with closing(sqlite3.connect(source.reveal().removeprefix("sqlite:///"))) as odd, odd:
        odd.execute("UPDATE feedback SET comment = 'a' || char(0) || 'b'")
        odd.execute("UPDATE prompt_texts SET content = CAST(x'61ff62' AS TEXT)")
        odd.execute("UPDATE replay_runs SET pairs = 4294967296 WHERE rowid = 1")
        odd.execute("UPDATE turns SET at = 'noon' WHERE rowid = 2")
        odd.execute("UPDATE turns SET name = CAST(x'ff' AS TEXT) WHERE rowid = 3")
    file = tmp_path / "left-out.jsonl"

    stopped = refused(source, target, "--switch")
    open_store(source).prepare()
    output = copied(source, target, "--switch", "--left-out", str(file))

    rows = contents(target)
    assert "cannot hold 3 rows" in stopped
    assert "replay_runs.pairs: the integer has more than 32 bits" in stopped
    assert "changed: 3 values of feedback.comment, which had NUL" in output
    assert "values of prompt_texts.content, which had bytes that are not UTF-8" in output
    assert {row[6] for row in rows["feedback"]} == {"a\ufffdb"}
    assert {row[3] for row in rows["prompt_texts"]} == {"a\ufffdb"}
    assert [len(rows["turns"]), len(rows["replay_runs"])] == [1, 2]
    assert len(file.read_text().splitlines()) == 3
    assert '"name":"name 1' in file.read_text()


def test_nan_which_sqlite_does_not_store_is_changed_or_left_out(
    new: NewUrl, tmp_path: Path
) -> None:
    source, target = new("postgresql"), new("sqlite")
    fill(source, 3)
    with psycopg.connect(source.reveal()) as odd:
        odd.execute("UPDATE feedback SET value = 'NaN'")
        odd.execute("UPDATE turns SET at = 'NaN' WHERE at = 0.1")
    file = tmp_path / "left-out.jsonl"

    output = copied(source, target, "--open", "--left-out", str(file))

    rows = contents(target)
    assert "changed: 3 values of feedback.value, which had NaN" in output
    assert {row[4] for row in rows["feedback"]} == {None}
    assert len(rows["turns"]) == 2
    assert "1 rows are left out" in output


def test_databases_that_are_not_for_this_copy_are_refused(new: NewUrl, tmp_path: Path) -> None:
    source, target, other = new("sqlite"), new("sqlite"), new("sqlite")
    fill(source, 2)
    fill(other, 1)
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as foreign:
        foreign.execute("CREATE TABLE requests (x)")
    foreign_url = sqlite(tmp_path, "foreign")
    newer = new("sqlite")
    fill(newer, 1)
    with closing(sqlite3.connect(newer.reveal().removeprefix("sqlite:///"))) as edited, edited:
        edited.execute("UPDATE schema_version SET version = version + 1")

    copied(source, target)

    assert "has rows of its own (requests" in refused(source, other)
    assert "is an unfinished copy of" in refused(other, target)
    assert "is an unfinished copy of" in refused(target, new("sqlite"))
    assert "is the database of --from" in refused(source, source)
    assert "there is no" in refused(sqlite(tmp_path, "absent"), new("sqlite"))
    assert "has no tables of a gateway" in refused(foreign_url, new("sqlite"))
    assert "has schema version" in refused(newer, new("sqlite"))
    assert "has schema version" in refused(source, newer)


class Meanwhile:
    """Does something once, when a pass with these words begins."""

    def __init__(self, words: str, act: Callable[[], object]) -> None:
        self._words, self._act = words, act

    def phase(self, words: str, rows: int) -> None:
        if words == self._words:
            self._words = ""
            self._act()

    def rows(self, table: str, count: int) -> None:
        """Nothing is shown."""


def test_a_copy_that_another_run_has_ended_is_not_written_to_any_more(new: NewUrl) -> None:
    source, target = new("sqlite"), new("postgresql")
    fill(source, 2)

    def used() -> None:
        copied(source, target, "--open")
        with psycopg.connect(target.reveal()) as gateway:
            gateway.execute("INSERT INTO turns VALUES ('of the new gateway', 1.0)")

    slower = StoreCopy(source, target)
    with pytest.raises(InvalidConfig, match="another process has ended the copy"):
        slower.run("open", Actor(kind="cli"), Meanwhile("comparing", used), print)
    slower.close()

    assert ("of the new gateway", 1.0) in contents(target)["turns"]


def test_a_source_continues_in_one_database_alone(new: NewUrl) -> None:
    source, first, second = new("sqlite"), new("sqlite"), new("sqlite")
    fill(source, 2)
    slower = StoreCopy(source, second)
    words = "comparing, closed for writers"
    meanwhile = Meanwhile(words, lambda: copied(source, first, "--switch"))

    with pytest.raises(InvalidConfig, match=r"--from: .* has moved to"):
        slower.run("switch", Actor(kind="cli"), meanwhile, print)
    slower.close()

    open_store(first).prepare()
    with pytest.raises(InvalidConfig, match="is an unfinished copy of"):
        open_store(second).prepare()


def test_a_database_of_another_encoding_is_refused(new: NewUrl, postgres: Postgres) -> None:
    source = new("sqlite")
    fill(source, 1)
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as server:
        server.execute(
            "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0"
            " LOCALE_PROVIDER libc LOCALE 'C'"
        )

    assert "create it with ENCODING 'UTF8'" in refused(source, Secret(postgres.url("latin")))


def kill_and_resume(source: Secret, target: Secret, kills: int, rows: int) -> str:
    """Kill the command so often while it copies; return the output of the run that ends."""
    words = [sys.executable, "-m", "strowger_gateway.gateway.cli", "store", "copy", "--switch"]
    environment = {
        **os.environ,
        "STROWGER_COPY_FROM": source.reveal(),
        "STROWGER_COPY_TO": target.reveal(),
    }
    for kill in range(kills):
        wanted = rows * (kill + 1) // (kills + 1)
        with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and _copied_rows(target) < wanted:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert 0 < _copied_rows(target) < rows
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return ended.stdout


def _copied_rows(target: Secret) -> int:
    address = target.reveal()
    sql = "SELECT COUNT(*) FROM requests"
    if address.startswith("sqlite"):
        try:
            with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as connection:
                return int(connection.execute(sql).fetchone()[0])
        except sqlite3.OperationalError:
            return 0
    try:
        with psycopg.connect(address) as server:
            (count,) = server.execute(sql).fetchone() or (0,)
            return int(count)
    except psycopg.errors.UndefinedTable:
        return 0


@pytest.mark.parametrize(
    ("kind", "other", "rows"),
    [
        pytest.param("sqlite", "postgresql", 16_000),
        pytest.param("sqlite", "postgresql", TRIALS or 500_000, marks=pytest.mark.nightly),
        pytest.param("postgresql", "sqlite", TRIALS or 500_000, marks=pytest.mark.nightly),
    ],
)
def test_a_copy_that_is_killed_goes_on_where_it_was(
    new: NewUrl, kind: str, other: str, rows: int
) -> None:
    source, target = new(kind), new(other)
    fill(source, 5, {"requests": rows})

    output = kill_and_resume(source, target, 1 if rows <= 16_000 else 3, rows)

    assert f"{rows:,}" in output
    assert "audit log: 3 rows verified" in output
    before, after = digests(source_again(source)), digests(target)
    for table in tables():
        if table.name not in AUDITED:
            assert after[table.name] == before[table.name], table.name


def test_rows_of_megabytes_do_not_need_the_memory_of_many(new: NewUrl) -> None:
    source, target = new("sqlite"), new("sqlite")
    fill(source, 1)
    with closing(sqlite3.connect(source.reveal().removeprefix("sqlite:///"))) as large, large:
        large.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)"
            " INSERT INTO payloads SELECT 'r' || i, i, '', '', '', 200, '', 0,"
            " replace(hex(zeroblob(1000000)), '0', 'x') FROM n"
        )
    words = ("store", "copy", "--from", source.reveal(), "--to", target.reveal(), "--open")
    ended = subprocess.run(
        (sys.executable, "-c", TELLS_ITS_MEMORY, *words), capture_output=True, text=True, check=True
    )
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", ended.stdout)

    assert re.search(r"payloads +61 ", ended.stdout)
    assert int(peak) < 130_000, "KiB, for rows of 120 MB"


def source_again(source: Secret) -> Secret:
    """Open a source that was closed, to compare it."""
    sql = "UPDATE schema_version SET digest = substr(digest, 1, 8)"
    address = source.reveal()
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute(sql)
    else:
        with psycopg.connect(address) as server:
            server.execute(sql)
    return source
