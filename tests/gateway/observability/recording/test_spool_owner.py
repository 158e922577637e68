"""A spool belongs to one store: two gateways in one folder never import each other's records."""

import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.recording.audit_recorder import audit_spool
from strowger_gateway.gateway.observability.recording.importer import Importer
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.setup import open_spool
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.observability.recording.spool_owner import (
    ForeignSpool,
    own_folder,
    store_id,
)
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.serving import one_model
from tests.gateway.storage.sql.rows import request_row

HOSTS = "postgresql://u:p@db.example:5432/usage"


def configured(folder: Path, database: str) -> Config:
    folder.mkdir(exist_ok=True)
    file = folder / f"{database}.yaml"
    file.write_text(one_model("http://localhost:1", f"store: {{url: 'sqlite:///{database}.db'}}"))
    return load_config(file, {})


def record(spool: Spool, *ids: str) -> None:
    recorder = FileRecorder(spool)
    recorder.extend(request_row(id) for id in ids)
    recorder.close()


def imported(config: Config) -> tuple[int, list[str]]:
    """Import what waits; return how many rows, and the ids of all requests in the store."""
    store = open_store(config.store.url)
    try:
        count = Importer(open_spool(config), store).import_once()
        found = store.recorded_before(2.0**62, 100)
        return count, sorted(one.request_id for one in found)
    finally:
        store.close()


def test_two_stores_in_one_folder_get_their_own_records(tmp_path: Path) -> None:
    one, two = configured(tmp_path, "one"), configured(tmp_path, "two")
    first, second = open_spool(one), open_spool(two)
    record(first, "a", "b")
    record(second, "c")

    assert imported(two) == (1, ["c"])
    assert imported(one) == (2, ["a", "b"])
    assert first.folder == tmp_path / "strowger-spool"
    assert second.folder.parent == first.folder
    assert audit_spool(two).folder.is_relative_to(second.folder)


def test_a_spool_of_an_earlier_version_is_taken_over_once(tmp_path: Path) -> None:
    one, two = configured(tmp_path, "one"), configured(tmp_path, "two")
    record(Spool(tmp_path / "strowger-spool"), "old")

    assert imported(one) == (1, ["old"])
    assert imported(two) == (0, [])
    assert imported(one) == (0, ["old"])


def test_of_gateways_that_start_together_one_gets_the_folder(tmp_path: Path) -> None:
    urls = [Secret(f"sqlite:///{tmp_path}/{name}.db") for name in "abcdefgh"]
    with ThreadPoolExecutor(8) as threads:
        started = [threads.submit(own_folder, url, tmp_path / "spool") for url in urls * 4]
        folders = [one.result() for one in started]

    assert len(set(folders)) == 8
    assert folders.count(tmp_path / "spool") == 4
    assert folders == folders[:8] * 4
    assert [one.name for one in (tmp_path / "spool").iterdir() if one.is_file()] == ["store"]


def test_a_database_that_moves_with_its_spool_keeps_it(tmp_path: Path) -> None:
    record(open_spool(configured(tmp_path / "before", "one")), "a")
    shutil.move(tmp_path / "before", tmp_path / "after")

    assert imported(configured(tmp_path / "after", "one")) == (1, ["a"])


@pytest.mark.parametrize(
    "same",
    [
        "postgresql://other:secret@db.example/usage",
        "postgres://u@DB.example:5432/usage?sslmode=require",
        "postgresql://u:p@/usage?host=db.example",
        "postgresql:///?host=db.example&dbname=usage&port=5432&user=x",
    ],
)
def test_a_spool_knows_its_database_by_another_spelling_and_login(
    tmp_path: Path, same: str
) -> None:
    assert store_id(Secret(same), tmp_path) == store_id(Secret(HOSTS), tmp_path)


@pytest.mark.parametrize(
    "other",
    [
        "postgresql://u:p@db.example:5433/usage",
        "postgresql://u:p@db2.example/usage",
        "postgresql://u:p@db.example/usage2",
        "postgresql://u:p@db.example/usage?options=-csearch_path%3Dteam",
        "sqlite:////usage",
    ],
)
def test_a_spool_knows_another_database(tmp_path: Path, other: str) -> None:
    assert store_id(Secret(other), tmp_path) != store_id(Secret(HOSTS), tmp_path)


def test_the_marker_and_the_log_tell_what_to_do_and_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_folder(Secret("postgresql://me:hunter2@db/usage"), tmp_path)
    record(Spool(tmp_path), "waits")
    with caplog.at_level(logging.WARNING, "strowger.records"):
        inner = own_folder(Secret("postgresql://me:hunter3@db2/usage"), tmp_path, announces=True)

    text = (tmp_path / "store").read_text()
    assert "db:5432/usage" in text
    assert "delete this file" in text
    assert str(inner) in caplog.text
    assert "wait there" in caplog.text
    assert "hunter" not in text + caplog.text


def test_a_folder_that_another_store_took_gets_no_records_of_this_one(tmp_path: Path) -> None:
    """The marker could not be written at the start, and another gateway was faster later."""
    spool = Spool(tmp_path, owner="1234567890abcdef")
    own_folder(Secret(HOSTS), tmp_path)

    with pytest.raises(ForeignSpool):
        spool.create()
    assert not list(tmp_path.glob("*.rows"))


def moved(folder: Path, database: str, former: str) -> Config:
    """The configuration of a gateway whose store has moved."""
    file = folder / f"{database}.yaml"
    store = f"store: {{url: 'sqlite:///{database}.db', moved_from: 'sqlite:///{former}.db'}}"
    file.write_text(one_model("http://localhost:1", store))
    return load_config(file, {})


def test_a_store_that_has_moved_takes_over_what_waits_for_the_old_one(tmp_path: Path) -> None:
    old = configured(tmp_path, "old")
    before, audited = open_spool(old), audit_spool(old)
    record(before, "a")

    new = moved(tmp_path, "new", "old")
    after = open_spool(new)
    record(before, "b")  # a gateway that was not restarted yet

    assert after.folder == before.folder
    assert audit_spool(new).folder == audited.folder
    assert imported(new) == (2, ["a", "b"])
    assert open_spool(configured(tmp_path, "other")).folder != after.folder


def test_what_the_new_store_recorded_apart_before_is_taken_along(tmp_path: Path) -> None:
    """The gateway was started with the new address before `moved_from` was set."""
    record(open_spool(configured(tmp_path, "old")), "a")
    record(open_spool(configured(tmp_path, "new")), "b")

    assert imported(moved(tmp_path, "new", "old")) == (2, ["a", "b"])


def test_the_spool_of_a_third_store_is_not_taken_over(tmp_path: Path) -> None:
    record(open_spool(configured(tmp_path, "third")), "a")

    assert imported(moved(tmp_path, "new", "old")) == (0, [])
