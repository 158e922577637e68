"""`audit.file`: every row of the chain once, whatever happens to the file and to its writer."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.observability.recording.audit_file import AuditFile
from strowger_gateway.gateway.storage.sql.audit_rows import AuditRows
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret


@pytest.fixture
def rows(tmp_path: Path) -> Generator[AuditRows]:
    store = open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    yield store.audit
    store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def append(rows: AuditRows, number: int = 1) -> None:
    rows.append([AuditEvent(action="gateway.start", actor_kind="gateway") for _ in range(number)])


def copied(rows: AuditRows, path: Path) -> None:
    """Copy as a process that has just started."""
    file = AuditFile(path, path.parent / "spool")
    file.copy(rows)
    assert file.failing == ""
    file.close()


def places(path: Path) -> list[int]:
    return [json.loads(line)["seq"] for line in path.read_text().splitlines()]


def test_each_row_is_written_once_over_restarts(rows: AuditRows, path: Path) -> None:
    for _ in range(3):
        append(rows, 2)
        copied(rows, path)
        copied(rows, path)

    assert places(path) == [1, 2, 3, 4, 5, 6]
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_renamed_file_is_followed_by_a_new_one_without_a_signal(
    rows: AuditRows, path: Path
) -> None:
    file = AuditFile(path, path.parent / "spool")
    append(rows)
    file.copy(rows)
    path.rename(path.with_suffix(".1"))
    append(rows)
    file.copy(rows)
    path.unlink()
    append(rows)
    file.copy(rows)
    file.close()

    assert (places(path.with_suffix(".1")), places(path)) == ([1], [3])


def test_a_restart_after_a_rotation_repeats_nothing(rows: AuditRows, path: Path) -> None:
    append(rows, 2)
    copied(rows, path)
    path.rename(path.with_suffix(".1"))
    append(rows)
    copied(rows, path)

    assert places(path) == [3]


def test_a_truncated_file_goes_on_at_its_beginning(rows: AuditRows, path: Path) -> None:
    file = AuditFile(path, path.parent / "spool")
    append(rows)
    file.copy(rows)
    path.write_bytes(b"")
    append(rows)
    file.copy(rows)
    file.close()

    assert places(path) == [2]


@pytest.mark.parametrize("kept", [1, 8, 40, -1])
def test_a_line_that_a_killed_process_left_is_completed(
    kept: int, rows: AuditRows, path: Path
) -> None:
    """It is cut at any byte, before the place that was reached was kept."""
    append(rows, 2)
    copied(rows, path)
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(first + b"\n" + second[:kept])
    state = path.parent / "spool" / "file-position"
    state.unlink()

    copied(rows, path)

    assert places(path) == [1, 2]


def test_rows_written_before_their_place_was_kept_are_not_repeated(
    rows: AuditRows, path: Path
) -> None:
    append(rows, 2)
    copied(rows, path)
    old = (path.parent / "spool" / "file-position").read_bytes()
    append(rows)
    copied(rows, path)
    (path.parent / "spool" / "file-position").write_bytes(old)

    copied(rows, path)

    assert places(path) == [1, 2, 3]


def test_a_foreign_last_line_is_left_as_it_is(rows: AuditRows, path: Path) -> None:
    path.write_text("not ours")
    append(rows)
    copied(rows, path)

    assert path.read_text().startswith('not ours\n{"seq":1,')


def test_two_gateways_do_not_write_one_file(
    rows: AuditRows, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = (AuditFile(path, path.parent / name) for name in ("spool", "other"))
    append(rows)
    one.copy(rows)
    other.copy(rows)
    append(rows)
    one.copy(rows)
    one.close()
    other.copy(rows)
    other.close()

    assert "another gateway writes it" in caplog.text
    assert places(path) == [1, 2]


def test_a_missing_folder_is_logged_once_and_the_rows_follow(
    rows: AuditRows, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "later" / "audit.jsonl"
    file = AuditFile(path, tmp_path / "spool")
    append(rows, 2)
    file.copy(rows)
    file.copy(rows)
    failing = file.failing
    path.parent.mkdir()
    file.copy(rows)
    file.close()

    assert failing
    assert caplog.text.count("cannot write audit.file") == 1
    assert (file.failing, places(path)) == ("", [1, 2])


def test_rows_that_the_store_lost_are_an_error_in_the_log(
    rows: AuditRows, path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    append(rows, 3)
    copied(rows, path)
    other = open_store(Secret(f"sqlite:///{tmp_path / 'other.db'}"))
    append(other.audit)

    copied(other.audit, path)
    other.close()

    assert "AUDIT LOG CHANGED: audit.file has row 3" in caplog.text
    assert places(path) == [1, 2, 3, 1]
