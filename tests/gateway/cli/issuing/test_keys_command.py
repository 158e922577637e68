"""`strowger keys`: on the store, without a running gateway."""

import json
import re
from pathlib import Path

import pytest

from strowger_gateway.gateway.governance.issued_keys.secret import PATTERN
from tests.gateway.cli.command_line import run, table
from tests.gateway.serving import one_model

AUTH = """
auth: {mode: keys, admin_key: key-of-the-operator, keys: [{name: of-the-file, key: file-key-0001}]}
teams: [{name: red, models: [chat]}]
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(one_model("http://127.0.0.1:9/v1", AUTH))
    return str(file)


def test_a_key_goes_through_its_life(config: str) -> None:
    made = run("keys", "create", "ci", "--team", "red", "--expires", "90d", "--config", config)
    shown = run("keys", "show", "ci", "--config", config)
    rotated = run("keys", "rotate", "ci", "--overlap", "24h", "--config", config)
    two = run("keys", "show", "ci", "--config", config)
    disabled = run("keys", "disable", "ci", "--config", config)
    rows = table(run("keys", "list", "--config", config).stdout, "NAME")
    enabled = run("keys", "enable", "ci", "--config", config)
    revoked = run("keys", "revoke", "ci", "--config", config)
    left = table(run("keys", "list", "--config", config).stdout, "NAME")
    everything = json.loads(run("keys", "list", "--all", "--json", "--config", config).stdout)

    secrets = [made.stdout.strip(), rotated.stdout.strip()]
    assert all(re.fullmatch(PATTERN, secret) for secret in secrets)
    assert "shown this once" in made.stderr
    assert secrets[0] not in shown.output + two.output
    assert f"…{secrets[0][-4:]}, made" in shown.stdout
    assert "no gateway has read this store" in shown.stdout
    assert re.search(rf"…{secrets[0][-4:]}, made .*, valid until", two.stdout)
    assert disabled.stdout.startswith("ci is disabled; running gateways follow within 2 s")
    assert [row[:3] for row in rows] == [
        ["of-the-file", "file", "active"],
        ["ci", "issued", "disabled"],
    ]
    assert enabled.stdout.startswith("ci is enabled")
    assert "ci is revoked" in revoked.stdout
    assert [row[0] for row in left] == ["of-the-file"]
    assert [one["state"] for one in everything] == ["active", "revoked"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", "cii"), "no issued key is named 'cii'"),
        (("revoke", "of-the-file"), "is in the configuration file"),
        (("create", "x", "--team", "gren"), "team: no team is named 'gren'"),
        (("create", "x", "--model", "chatt"), "models: no model is named 'chatt'"),
        (("create", "x", "--network", "10.0.0.1/8"), "allowed_networks: "),
        (("create", "x", "--tag", ""), "length >= 1 - at `$.tags[0]`"),
        (("create", "x", "--user", "u" * 257), "length <= 256 - at `$.user`"),
        (
            ("create", "x", "--limit", "requests=5,per=year"),
            "must be one of minute, hour, day; write it as requests=60",
        ),
        (("create", "x", "--budget", "usd=1"), "budgets[0].usd: would refuse every request"),
        (("change", "of-the-file", "--no-limits"), "is in the configuration file"),
        (("create", "of-the-file"), "is in the configuration file"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], told: str, config: str) -> None:
    found = run("keys", *words, "--config", config)

    assert (found.exit_code, found.stdout, len(found.stderr.splitlines())) == (1, "", 1)
    assert told in found.stderr


def test_limits_and_budgets_of_a_key_are_shown_changed_and_removed(config: str) -> None:
    given = ("--limit", "requests=5", "--limit", "name=day,tokens=1000,per=day")
    run("keys", "create", "ci", *given, "--budget", "tokens=9,per=total", "--config", config)
    shown = run("keys", "show", "ci", "--config", config).stdout
    rows = table(run("keys", "list", "--config", config).stdout, "NAME")
    changed = run("keys", "change", "ci", "--limit", "requests=7", "--config", config)
    emptied = run("keys", "change", "ci", "--no-budgets", "--user", "jane", "--config", config)
    left = json.loads(run("keys", "show", "ci", "--json", "--config", config).stdout)["key"]
    nothing = run("keys", "change", "ci", "--config", config)
    both = run("keys", "change", "ci", "--no-limits", "--limit", "requests=1", "--config", config)
    overview = run("budgets", "--config", config).stdout

    assert "limit         requests=5,per=minute\n" in shown
    assert "limit         name=day,tokens=1000,per=day\n" in shown
    assert "budget        tokens=9,per=total\n" in shown
    assert "requests=5,per=minute" in " ".join(rows[1])
    assert changed.stdout.startswith("ci is changed; running gateways follow within 2 s")
    assert emptied.exit_code == 0
    assert ([one["requests"] for one in left["limits"]], left["budgets"], left["user"]) == (
        [7],
        [],
        "jane",
    )
    assert (nothing.exit_code, both.exit_code) == (2, 2)
    assert "no issued key has one" in overview


def test_a_refused_change_is_in_the_audit_log(config: str) -> None:
    run("keys", "create", "ci", "--config", config)
    run("keys", "create", "ci", "--team", "gren", "--config", config)
    run("keys", "revoke", "of-the-file", "--config", config)
    lines = run("audit", "--json", "--config", config).stdout.splitlines()

    rows = [json.loads(line) for line in lines]
    assert [(one["action"], one["target"], one["outcome"]) for one in rows] == [
        ("key.create", "ci", "done"),
        ("key.create", "ci", "refused"),
        ("key.revoke", "of-the-file", "refused"),
    ]
    assert "no team is named 'gren'" in rows[1]["reason"]
    assert {one["actor_kind"] for one in rows} == {"cli"}


@pytest.mark.parametrize("option", [("--expires", "soon"), ("--not-before", "24x")])
def test_a_time_that_cannot_be_read_is_wrong_usage(option: tuple[str, str], config: str) -> None:
    found = run("keys", "create", "x", *option, "--config", config)

    assert found.exit_code == 2
    assert "2027-01-31T00:00:00Z" in found.stderr


def test_without_auth_mode_keys_a_warning_says_that_keys_are_not_checked(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(one_model("http://127.0.0.1:9/v1"))

    made = run("keys", "create", "ci", "--config", str(file))

    assert made.exit_code == 0
    assert "auth.mode is none" in made.stderr
