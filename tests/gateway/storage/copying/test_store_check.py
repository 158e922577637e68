"""`strowger store check`: rows that do not belong together are found, and others are not."""

import json
from pathlib import Path

import pytest

from strowger_gateway.gateway.audit.event import Actor, AuditEvent
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.governance.issued_keys.authority import (
    KeyAuthority,
    KeyEvent,
    KeyFields,
)
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.cli.command_line import run
from tests.gateway.serving import one_model
from tests.gateway.storage.sql.rows import attempt_row, request_row
from tests.stand_ins.postgres import Postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A configuration whose store has a key, requests and an audit log."""
    url = f"sqlite:///{tmp_path}/store.db"
    if request.param == "postgresql":
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.empty_database()
    file = tmp_path / "config.yaml"
    text = one_model("http://localhost:1", f"store: {{url: '{url}'}}")
    file.write_text(text)
    store = open_store(Secret(url))
    parsed = read_config(text, source="config.yaml", env={})
    authority = KeyAuthority(store.issued_keys, lambda: parsed, ignore)
    authority.create("ci", KeyFields(), Actor(kind="cli", label="a test"))
    store.import_rows("file", 0, 1, [request_row("a"), attempt_row("a")])
    event = AuditEvent(action="key.create", actor_kind="cli", target="ci")
    store.audit.append([event])
    store.close()
    return file


def ignore(event: KeyEvent) -> None:
    """The audit log has it."""


def change(config: Path, *statements: str) -> None:
    parsed = read_config(config.read_text(), source="config.yaml", env={})
    store = open_store(parsed.store.url)
    with store.database.writing() as session:
        for statement in statements:
            session.run(statement)
    store.close()


def test_a_store_in_order_has_no_fault(config: Path) -> None:
    found = run("store", "check", "--config", str(config))
    printed = json.loads(run("store", "check", "--json", "--config", str(config)).stdout)

    assert found.exit_code == 0, found.output
    assert "no fault found" in found.output
    assert printed["rows"]["issued_keys"] == 1
    assert printed["breaches"] == []
    assert printed["audit_rows"] == 2


def test_every_fault_is_named_with_its_remedy(config: Path) -> None:
    change(
        config,
        "DELETE FROM issued_keys",
        "INSERT INTO stored_response_keys VALUES ('ci', 7)",
        "INSERT INTO replay_votes VALUES ('gone', 1, 'ann', 1, 1)",
        "DELETE FROM usage_payers",
        "INSERT INTO spend_version VALUES (9)",
        "UPDATE audit_rows SET actor = 'another' WHERE seq = 1",
    )

    found = run("store", "check", "--config", str(config))

    assert found.exit_code == 1
    for words in (
        "issued_key_secrets: secrets of keys that are not there; they open nothing; restore",
        "stored_response_keys: keys whose stored responses have another size",
        "replay_votes: rows of replays that are not there",
        "usage_sums: sums of payers that are not there",
        "spend_version: rows in a table that always has 1",
        "audit_rows: row 1 was changed: its hash is wrong",
    ):
        assert words in found.output


def test_a_key_without_a_secret_is_found(config: Path) -> None:
    change(config, "DELETE FROM issued_key_secrets")

    found = run("store", "check", "--config", str(config))

    assert "issued_keys: keys that are not revoked and have no secret" in found.output


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(one_model("http://localhost:1", f"store: {{url: 'sqlite:///{tmp_path}/s.db'}}"))
    store = open_store(Secret(f"sqlite:///{tmp_path}/s.db"))
    store.import_rows("file", 0, 1, [request_row(str(one)) for one in range(200)])
    with store.database.writing() as session:
        ((page, size),) = session.rows(
            tuple[int, int],
            "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master"
            " WHERE name = 'requests_time'",
        )
    store.close()
    with (tmp_path / "s.db").open("r+b") as damaged:
        damaged.seek((page - 1) * size + 8)
        damaged.write(b"\xff" * 64)

    found = run("store", "check", "--config", str(file))

    assert found.exit_code == 1
    assert "no fault" not in found.output
    assert "s.db" in found.output or "(file)" in found.output
