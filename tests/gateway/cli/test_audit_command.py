"""`strowger audit`: show the audit log and check it, without a running gateway."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from strowger_gateway.gateway.audit.event import Action, ActorKind
from tests.gateway.cli.command_line import run, table
from tests.gateway.serving import one_model

DOCS = Path(__file__).parents[3] / "docs" / "audit.md"


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Of a store in which commands have issued, disabled and revoked a key."""
    file = tmp_path / "config.yaml"
    file.write_text(one_model("http://127.0.0.1:9/v1"))
    for words in (("create", "ci"), ("disable", "ci"), ("revoke", "ci")):
        assert run("keys", *words, "--config", str(file)).exit_code == 0
    return str(file)


def tamper(config: str, sql: str) -> None:
    with closing(sqlite3.connect(Path(config).with_name("strowger.db"))) as connection:
        connection.execute(sql)
        connection.commit()


def copy(config: str) -> Path:
    """Write the rows as `audit.file` has them."""
    file = Path(config).with_name("audit.jsonl")
    file.write_text(run("audit", "--json", "--config", config).stdout)
    return file


def test_rows_are_shown_with_who_did_what(config: str) -> None:
    rows = table(run("audit", "--config", config).stdout, "ROW")
    revoked = run("audit", "--action", "key.revoke", "--json", "--config", config).stdout

    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert [line["action"] for line in map(json.loads, revoked.splitlines())] == ["key.revoke"]
    assert json.loads(revoked)["actor_kind"] == "cli"


@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        ((), [1, 2, 3]),
        (("--limit", "2"), [2, 3]),
        (("--since", "1h"), [1, 2, 3]),
        (("--since", "2999-01-01"), []),
        (("--actor", "cli", "--action", "key"), [1, 2, 3]),
        (("--actor", "nobody"), []),
    ],
)
def test_rows_are_selected(options: tuple[str, ...], seqs: list[int], config: str) -> None:
    shown = run("audit", *options, "--json", "--config", config).stdout

    assert [json.loads(line)["seq"] for line in shown.splitlines()] == seqs


def test_a_whole_chain_verifies_also_against_its_copy_and_a_noted_hash(config: str) -> None:
    file = copy(config)
    last = json.loads(file.read_text().splitlines()[-1])["hash"]

    found = run(
        "audit", "--verify", "--file", str(file), "--head", last.upper(), "--config", config
    )

    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines() == [
        "3 rows, 1 to 3: none was changed or removed",
        "3 rows of the copy are the same",
        f"the last row has the hash {last}",
    ]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("UPDATE audit_rows SET actor = 'mallory' WHERE seq = 2", "row 2 was changed"),
        ("DELETE FROM audit_rows WHERE seq = 2", "row 2 is missing"),
        ("DELETE FROM audit_rows WHERE seq < 3", "rows 1 to 2 are missing, and no audit.prune"),
        ("DELETE FROM audit_rows WHERE seq > 1", "rows 2 to 3 are missing at the end"),
        ("DELETE FROM audit_rows", "rows 1 to 3 are missing at the end"),
        ("DELETE FROM audit_head", "row 3 is not the last row that was appended"),
    ],
)
def test_what_was_done_to_the_rows_is_named(sql: str, told: str, config: str) -> None:
    tamper(config, sql)

    found = run("audit", "--verify", "--config", config)

    assert (found.exit_code, found.stdout) == (1, "")
    assert told in found.stderr


def test_an_end_that_was_cut_off_with_its_head_is_found_by_a_copy_or_a_hash(config: str) -> None:
    file = copy(config)
    second, third = (json.loads(line) for line in file.read_text().splitlines()[1:])
    tamper(config, "DELETE FROM audit_rows WHERE seq = 3")
    tamper(config, f"UPDATE audit_head SET seq = 2, hash = '{second['hash']}'")

    alone = run("audit", "--verify", "--config", config)
    copied = run("audit", "--verify", "--file", str(file), "--config", config)
    noted = run("audit", "--verify", "--head", third["hash"], "--config", config)

    assert alone.exit_code == 0
    assert copied.exit_code == noted.exit_code == 1
    assert "audit.jsonl line 3 has row 3, and the store's chain ends at row 2" in copied.stderr
    assert f"no row has the hash {third['hash']}" in noted.stderr


def test_a_copy_that_was_edited_is_reported(config: str) -> None:
    file = copy(config)
    lines = file.read_text().splitlines()
    lines[1] = lines[1].replace('"target":"ci"', '"target":"cd"')
    lines[2] = lines[2].replace('{"seq"', '{"extra":1,"seq"')
    file.write_text("\n".join([*lines, "no row", ""]))

    found = run("audit", "--verify", "--file", str(file), "--config", config)

    assert found.exit_code == 1
    assert "audit.jsonl line 2, row 2, was changed" in found.stderr
    assert "audit.jsonl line 3, row 3, was changed" in found.stderr
    assert "audit.jsonl line 4 is not a row of the audit log" in found.stderr


def test_with_the_log_off_commands_leave_no_row(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(one_model("http://127.0.0.1:9/v1", "audit: {log: off}"))
    run("keys", "create", "ci", "--config", str(file))

    assert run("audit", "--json", "--config", str(file)).stdout == ""


@pytest.mark.parametrize(
    "options", [("--head", "0" * 64), ("--verify", "--head", "x"), ("--since", "soon")]
)
def test_wrong_options_are_wrong_usage(options: tuple[str, ...], config: str) -> None:
    assert run("audit", *options, "--config", config).exit_code == 2


def test_the_documentation_has_every_action_and_kind_of_actor() -> None:
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", DOCS.read_text("utf-8")))

    assert {*get_args(Action), *get_args(ActorKind)} <= named
