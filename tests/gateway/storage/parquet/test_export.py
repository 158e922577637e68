"""`strowger records export`: every row exactly once in Parquet, whenever the command is killed.

STROWGER_EXPORT_KILLS is the number of kills in the long test (`make nightly-tests`).
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.storage.parquet.export import MANIFEST, Export
from strowger_gateway.gateway.storage.parquet.tables import ATTEMPTS, REQUESTS
from strowger_gateway.gateway.storage.parquet.target import Folder
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import Row
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.cli.command_line import run
from tests.gateway.storage.sql.rows import NOON, attempt_row, request_row

KILLS = int(os.environ.get("STROWGER_EXPORT_KILLS", "100"))
DAY_S = 86_400.0
DATASET: Any = import_module("pyarrow.dataset")
"""pyarrow has no types."""

CONFIG = """
store: {{url: "{url}"}}
providers: [{{name: one, adapter: openai, base_url: "https://one.test/v1", api_key: sk-1}}]
models: [{{name: chat, backends: [{{provider: one, model: m}}]}}]
"""


class Recorded:
    """A store that gets rows of several days, in imports of any size."""

    def __init__(self, store: SqlStore, seed: int = 0) -> None:
        self.store = store
        self.ids: list[str] = []
        self._draws = random.Random(seed)
        self._imports = 0

    def add(self, requests: int) -> None:
        """One import; rows of an older day may come in any of them."""
        rows: list[Row] = []
        for _ in range(requests):
            name = f"r-{len(self.ids):06d}-{self._draws.randrange(1 << 30):x}"
            at = NOON + DAY_S * self._draws.randrange(3) + self._draws.random()
            rows.append(request_row(name, time=at, cost=0.25))
            rows += [attempt_row(name, number, time=at) for number in (1, 2)]
            self.ids.append(name)
        self.store.import_rows("file", self._imports, self._imports + 1, rows)
        self._imports += 1


def table(folder: Path, name: str) -> Any:
    """As readers of partitioned folders see it."""
    return DATASET.dataset(folder / name, format="parquet", partitioning="hive").to_table()


def column(folder: Path, name: str, label: str) -> Sequence[object]:
    return table(folder, name).column(label).to_pylist()


def complete(folder: Path, ids: Sequence[str]) -> bool:
    """Whether every row is there, and once."""
    requests = Counter(column(folder, "requests", "request_id"))
    attempts = Counter(
        zip(
            column(folder, "attempts", "request_id"),
            column(folder, "attempts", "number"),
            strict=True,
        )
    )
    return requests == Counter(ids) and attempts == Counter(
        (name, number) for name in ids for number in (1, 2)
    )


def export(store: SqlStore, folder: Path, part_rows: int = 7) -> dict[str, int]:
    target = Folder(folder)
    try:
        return dict(Export(store.database, target, part_rows).run().rows)
    finally:
        target.close()


def test_each_run_adds_what_is_new_whatever_its_day(store: SqlStore, tmp_path: Path) -> None:
    recorded = Recorded(store)
    counts: list[int] = []
    for size in (5, 1, 23, 0, 40):
        recorded.add(size)
        counts.append(export(store, tmp_path / "out")["requests"])

        assert complete(tmp_path / "out", recorded.ids)
    assert counts == [5, 1, 23, 0, 40]


def test_the_schema_is_the_same_in_every_file_and_values_are_those_of_the_store(
    store: SqlStore, tmp_path: Path
) -> None:
    store.import_rows("file", 0, 1, [request_row("one", time=NOON + 0.25, cost=0.5)])
    other = replace(request_row("two", tokens=7, fallback=True), attributes={"turns": 3})
    store.import_rows("file", 1, 2, [other])
    export(store, tmp_path / "out", part_rows=1)
    rows = table(tmp_path / "out", "requests").sort_by("request_id").to_pylist()
    files = sorted((tmp_path / "out" / "requests").rglob("*.parquet"))
    schemas = {str(DATASET.dataset(file).schema) for file in files}

    assert (len(files), len(schemas)) == (2, 1)
    assert list(rows[0])[:-1] == list(REQUESTS)
    assert rows[0]["time"].timestamp() == NOON + 0.25
    assert (rows[0]["cost_usd"], rows[0]["completion_tokens"]) == (0.5, None)
    assert (rows[1]["completion_tokens"], rows[1]["fallback"]) == (7, True)
    assert rows[1]["stream"] is False
    assert [row["attributes"] for row in rows] == [None, '{"turns":3}']
    assert str(rows[1]["day"]) == rows[1]["time"].strftime("%Y-%m-%d")


def test_columns_are_those_of_the_tables(store: SqlStore) -> None:
    """A new column of a table is exported, or named here."""
    Recorded(store).add(1)
    with store.database.reading() as session:
        for name, columns, other in (
            ("requests", REQUESTS, {"ended", "batch"}),
            ("attempts", ATTEMPTS, {"batch"}),
        ):
            for column in (*columns, *other):
                session.rows(tuple[object], f'SELECT "{column}" FROM {name} LIMIT 1')
            assert len(session.rows(tuple[object, ...], f"SELECT * FROM {name}")[0]) == len(
                {*columns, *other}
            )


def test_the_folder_of_another_store_or_of_a_newer_state_is_refused(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    for file in files:
        file.mkdir()
        store = open_store(Secret(f"sqlite:///{file}/s.db"))
        Recorded(store).add(3)
        store.close()
        config = file / "config.yaml"
        config.write_text(CONFIG.format(url=f"sqlite:///{file}/s.db"))
    out = str(tmp_path / "out")
    first = run("records", "export", "--config", str(files[0] / "config.yaml"), "--to", out)
    other = run("records", "export", "--config", str(files[1] / "config.yaml"), "--to", out)
    store = open_store(Secret(f"sqlite:///{files[0]}/s.db"))
    with store.database.writing() as session:
        session.run("UPDATE import_batch SET number = 0")
    store.close()
    older = run("records", "export", "--config", str(files[0] / "config.yaml"), "--to", out)

    assert first.exit_code == 0
    assert first.output.splitlines()[-1].startswith("3 requests, 6 attempts in ")
    assert (other.exit_code, "has the export of another database" in other.output) == (1, True)
    assert (older.exit_code, "the export is ahead of the database" in older.output) == (1, True)


@pytest.mark.parametrize("where", ["", "ftp://x/y", "s3://"])
def test_a_place_that_is_none_is_refused_with_the_remedy(tmp_path: Path, where: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(url=f"sqlite:///{tmp_path}/s.db"))
    found = run("records", "export", "--config", str(file), "--to", where)

    assert found.exit_code == 1
    assert found.output.startswith("--to: ")


def test_a_second_process_at_the_same_folder_is_refused(store: SqlStore, tmp_path: Path) -> None:
    first = Folder(tmp_path / "out")
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(url=f"sqlite:///{tmp_path}/s.db"))
    found = run("records", "export", "--config", str(file), "--to", str(tmp_path / "out"))
    first.close()

    assert (found.exit_code, "another process exports to" in found.output) == (1, True)


def killed_at_random(folder: Path, kills: int, seed: int) -> None:
    """Kill the command again and again while rows come; then let it end."""
    draws = random.Random(seed)
    store = open_store(Secret(f"sqlite:///{folder}/s.db"))
    recorded = Recorded(store, seed)
    (folder / "config.yaml").write_text(CONFIG.format(url=f"sqlite:///{folder}/s.db"))
    words = (
        sys.executable,
        "-m",
        "strowger_gateway.gateway.cli",
        "records",
        "export",
        "--part-rows",
        "5",
    )
    command = (*words, "--config", str(folder / "config.yaml"), "--to", str(folder / "out"))
    in_progress = 0
    for _ in range(kills):
        recorded.add(30)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        process.stderr.readline()  # it has begun
        time.sleep(draws.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        in_progress += process.wait() == -signal.SIGKILL
        process.stderr.close()
    subprocess.run(command, check=True, capture_output=True)
    store.close()

    assert in_progress > kills // 2, "the kills come too late"
    assert complete(folder / "out", recorded.ids)
    assert (folder / "out" / MANIFEST).exists()


def test_a_killed_export_goes_on_with_every_row_exactly_once(tmp_path: Path) -> None:
    killed_at_random(tmp_path, kills=3, seed=1)


@pytest.mark.nightly
def test_an_export_that_is_killed_many_times_has_every_row_exactly_once(tmp_path: Path) -> None:
    killed_at_random(tmp_path, KILLS, seed=2)
