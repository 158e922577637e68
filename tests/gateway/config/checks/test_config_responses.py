"""Stored responses: off by default, and what `strowger check` says of several gateways."""

from pathlib import Path

from click.testing import CliRunner

from strowger_gateway.gateway.cli.main import strowger
from tests.gateway.config.configs import GOOD, faults, read, warnings

ON = "responses: {store: on}\n"
REDIS = "store: {redis_url: redis://localhost, url: %s}\n"


def test_nothing_is_stored_by_default() -> None:
    assert read(GOOD).responses.store == "off"
    assert read(GOOD + ON).responses.store == "on"


def test_a_value_out_of_range_is_named() -> None:
    found = faults(GOOD + "responses: {store: yes, keep_days: 0, max_bytes_per_key: 1KiB}\n")

    assert [one.partition(":")[0] for one in found] == [
        "responses.store",
        "responses.keep_days",
        "responses.max_bytes_per_key",
    ]


def test_sealing_keys_are_long_two_at_most_and_secret() -> None:
    key = "k" * 32
    (short,) = faults(GOOD + f"responses: {{sealing_keys: [{key}, {key[1:]}]}}\n")
    (many,) = faults(GOOD + f"responses: {{sealing_keys: [{key}, {key}, {key}]}}\n")
    good = read(GOOD + f"responses: {{sealing_keys: [{key}]}}\n").responses

    assert short.startswith("responses.sealing_keys[1]: must have at least 32 characters")
    assert many.startswith("responses.sealing_keys")
    assert key not in repr(good)


def test_gateways_with_an_sqlite_file_each_are_warned_of() -> None:
    (found,) = warnings(GOOD + ON + REDIS % "sqlite:///strowger.db")

    assert found.startswith("responses.store: gateways that share store.redis_url")
    assert "PostgreSQL" in found
    assert warnings(GOOD + ON + REDIS % "postgresql://localhost/strowger") == []
    assert warnings(GOOD + REDIS % "sqlite:///strowger.db") == []


def test_clients_without_keys_share_their_responses() -> None:
    (found,) = warnings(GOOD + ON + "auth: {mode: none, allow_open: true}\n")

    assert "each can read" in found


def test_check_notes_that_several_gateways_need_postgresql(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "providers: [{name: a, adapter: openai, base_url: http://localhost:9/v1, api_key: k}]\n"
        f"models: [{{name: m, backends: [{{provider: a, model: m}}]}}]\n{ON}"
    )

    said = CliRunner().invoke(strowger, ["check", str(file)])

    assert said.exit_code == 0
    assert "several gateways need a store.url of PostgreSQL" in said.output
