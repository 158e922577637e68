"""`strowger usage` shows the usage in the store."""

import json
import time
from pathlib import Path

from click.testing import CliRunner
from msgspec.structs import replace

from strowger_gateway.gateway.cli.main import strowger
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.storage.sql.rows import attempt_row, request_row

CONFIG = """
providers: [{name: remote, adapter: openai, base_url: "http://127.0.0.1:1"}]
models: [{name: chat, backends: [{provider: remote, model: m}]}]
prices: [{match: "remote/*", input: 1, output: 2}]
"""


def used(folder: Path, *words: str) -> str:
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    store = open_store(Secret(f"sqlite:///{folder / 'strowger.db'}"))
    at = time.time()
    old, now = at - 40 * 86_400, at
    store.import_rows(
        "f",
        0,
        1,
        [
            replace(request_row("r1", key="team-a", time=now), team="blue", tags=("prod", "cc-1")),
            attempt_row("r1", time=now),
            attempt_row("r1", 2, time=now, role="hedge"),
            attempt_row("r1", 3, time=now, role="failed"),
            *(request_row("r3", key="team-c", time=now), attempt_row("r3", time=now, cost=None)),
            *(request_row("r4", key="team-d", time=now), attempt_row("r4", time=now, cost=2.5e-6)),
            *(request_row("r5", key="team-d", time=now), attempt_row("r5", time=now, cost=None)),
            *(request_row("r2", key="team-b", time=old), attempt_row("r2", time=old)),
        ],
    )
    store.close()
    result = CliRunner().invoke(strowger, ["usage", "--config", str(config), *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_last_thirty_days_show_what_was_served_and_what_was_spent_in_total(
    tmp_path: Path,
) -> None:
    lines = used(tmp_path).splitlines()

    row, unknown, partly, total = lines[1:]
    served, in_all = ["1", "7", "3", "0.5000"], ["3", "21", "9", "1.5000"]
    assert lines[0].split()[4:8] == ["REQUESTS", "IN", "OUT", "USD"]
    assert lines[0].split()[8:] == ["ATTEMPTS", "IN", "OUT", "SPENT"]
    assert row.split()[1:] == ["team-a", "chat", "remote/m", *served, *in_all]
    assert unknown.split()[1:] == ["team-c", "chat", "remote/m", *["1", "7", "3", "?"] * 2]
    assert "0.000003 + ?" in partly
    assert total.split()[:4] == ["TOTAL", "4", "28", "12"]


def test_more_days_and_json_can_be_requested(tmp_path: Path) -> None:
    report = json.loads(used(tmp_path, "--json", "--days", "60"))

    rows = report["rows"]
    assert [row["key"] for row in rows] == ["team-b", "team-a", "team-c", "team-d"]
    assert (rows[0]["cost_usd"], rows[0]["cost_nano_usd"]) == ("0.50", 500_000_000)
    assert report["total"]["cost_nano_usd"] == 2_000_002_500


def test_a_report_without_requests_names_its_range(tmp_path: Path) -> None:
    words = ("--from", "2020-01-01", "--to", "2020-02-01", "--time-zone", "Europe/Berlin")

    text = used(tmp_path, *words)

    assert "No requests from 2020-01-01 00:00 to 2020-02-01 00:00 (Europe/Berlin)." in text


def test_usage_by_team_and_tag_is_csv_for_chargeback(tmp_path: Path) -> None:
    lines = used(tmp_path, "--by", "team,tag", "--csv", "--team", "blue").splitlines()

    assert lines[0].startswith("team,tag,requests,served_prompt_tokens,served_completion_tokens,")
    assert [line.split(",")[:3] for line in lines[1:3]] == [
        ["blue", "cc-1", "1"],
        ["blue", "prod", "1"],
    ]
    assert "the total counts it once: 1 requests, 1.50 USD spent" in lines[3]


def test_a_wrong_question_is_answered_in_a_sentence(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    for words, message in (
        (["--by", "teem"], "by: unknown 'teem'; did you mean \"team\"?"),
        (["--time-zone", "Mars"], "time_zone: unknown time zone 'Mars'"),
        (["--month", "last", "--days", "3"], "give either days or month"),
        (["--days", str(10**20)], "not in the range 1<=x<=10000"),
        (["--json", "--csv"], "give either --json or --csv"),
    ):
        result = CliRunner().invoke(strowger, ["usage", "--config", str(config), *words])
        assert result.exit_code in (1, 2)
        assert message in result.output


def test_an_unreachable_store_is_reported_in_a_sentence(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"{CONFIG}\nstore: {{url: 'sqlite:///no-folder/x.db'}}\n")

    result = CliRunner().invoke(strowger, ["usage", "--config", str(config)])

    assert result.exit_code == 1
    assert "store.url" in result.output
    assert "unable to open" in result.output


def test_an_address_of_no_database_is_refused_without_showing_it(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"{CONFIG}\nstore: {{url: 'mysql://u:secret-word@h/x'}}\n")

    result = CliRunner().invoke(strowger, ["check", str(config)])

    assert result.exit_code == 1
    assert "store.url: must be sqlite:///FILE or postgresql://HOST/NAME" in result.output
    assert "secret-word" not in result.output
