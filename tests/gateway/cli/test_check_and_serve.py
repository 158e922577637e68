"""`strowger check` rejects whatever `strowger serve` rejects, with the same messages."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from strowger_gateway.gateway.cli.main import strowger
from tests.gateway.forked_commands import forked, printed

GOOD = """
server: {{port: 0, {server}}}
providers: [{{name: p, {provider}}}]
models: [{{name: m, backends: [{{provider: p, model: x}}]}}]
{more}
"""
OWN = "adapter: openai, base_url: 'http://127.0.0.1:9/v1', api_key: k"

REFUSED = {
    "no key for a vendor": {"provider": "adapter: openai"},
    "unsigned to AWS": {
        "provider": "adapter: bedrock, base_url: 'https://bedrock-runtime.eu-west-1.amazonaws.com'"
    },
    "an address without its version": {
        "provider": "adapter: azure, base_url: 'https://x.openai.azure.com/openai', api_key: k"
    },
    "a certificate that is none": {
        "provider": "adapter: vllm, base_url: 'https://x.test/v1', tls: {ca_file: config.yaml}"
    },
    "a host of another machine": {
        "server": "host: 192.0.2.1",
        "more": "auth: {mode: keys, keys: [{name: a, key: a-key-of-16-chars}]}",
    },
    "a newer program's tables": {"more": "store: {url: 'sqlite:///newer.db'}"},
    "an unreleased program's tables": {"more": "store: {url: 'sqlite:///unreleased.db'}"},
    "a store that is none": {"more": "store: {url: 'mysql://x'}"},
    "a field that there is not": {"more": "modles: []"},
}


def written(folder: Path, server: str = "", provider: str = OWN, more: str = "") -> Path:
    for name, columns, row in (
        ("newer", "version INTEGER NOT NULL, digest TEXT NOT NULL", (9999, "of-its-tables")),
        ("unreleased", "version INTEGER NOT NULL", (22,)),
    ):
        with sqlite3.connect(folder / f"{name}.db") as database:
            database.execute(f"CREATE TABLE schema_version ({columns})")
            marks = ", ".join("?" * len(row))
            database.execute(f"INSERT INTO schema_version VALUES ({marks})", row)
        database.close()
    file = folder / "config.yaml"
    file.write_text(GOOD.format(server=server, provider=provider, more=more))
    return file


ADAPTERS_TOO = ("unsigned to AWS", "an address without its version")
"""Refused by an adapter, as a vendor without a key is: they start processes only at night."""


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=pytest.mark.nightly if what in ADAPTERS_TOO else ())
        for what in REFUSED
    ],
)
def test_what_serve_refuses_check_refuses_with_the_same_message(what: str, tmp_path: Path) -> None:
    file = written(tmp_path, **REFUSED[what])

    served = subprocess.run(
        (sys.executable, "-m", "strowger_gateway.gateway.cli", "serve", "--config", str(file)),
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=60,
        check=False,
    )
    checked = CliRunner().invoke(strowger, ["check", str(file)])

    assert (served.returncode, checked.exit_code) == (1, 1), served.stderr + checked.output
    said = [line for line in served.stderr.splitlines() if not line.startswith("{")]
    assert said
    assert "Traceback" not in served.stderr
    assert said == checked.stderr.splitlines()


def test_check_changes_nothing_and_takes_the_port_that_a_gateway_has(tmp_path: Path) -> None:
    file = written(tmp_path)
    before = sorted(tmp_path.iterdir()), (tmp_path / "newer.db").read_bytes()

    assert CliRunner().invoke(strowger, ["check", str(file)]).exit_code == 0
    assert before == (sorted(tmp_path.iterdir()), (tmp_path / "newer.db").read_bytes())


@pytest.mark.anyio
async def test_an_address_given_to_serve_is_checked_in_place_of_the_files(tmp_path: Path) -> None:
    file = written(tmp_path, "host: 0.0.0.0")

    async with forked(file, file.read_text(), "--host", "127.0.0.1") as gateway:
        await gateway.reload(f"{file.read_text()}\nlogging: {{level: debug}}\n")

    assert CliRunner().invoke(strowger, ["check", str(file)]).exit_code == 1


@pytest.mark.anyio
async def test_serve_refuses_an_open_address_that_an_option_gives(tmp_path: Path) -> None:
    file = written(tmp_path, "host: 127.0.0.1")

    status, _, errors = await printed("serve", "--config", str(file), "--host", "0.0.0.0")

    refusals = [line for line in errors.splitlines() if "auth.mode" in line]
    assert (status, len(refusals)) == (1, 1), errors
    assert "0.0.0.0" in refusals[0]
