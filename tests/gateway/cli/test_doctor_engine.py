"""`strowger doctor --engine MODEL`: what an engine would compare at its start, and its refusal."""

from pathlib import Path

import pytest

from tests.gateway.cli.command_line import run, table
from tests.local_engine.tiny import save_model

CONFIG = """
providers:
  - name: here
    adapter: local
    engine:
      dtype: float32
      kv_cache: 256KiB
      models: [{{name: tiny, path: "{folder}"}}]
models:
  - {{name: chat, backends: [{{provider: here, model: tiny}}]}}
"""


@pytest.mark.nightly
def test_a_configured_model_is_compared_part_by_part_and_answers(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(folder=save_model(tmp_path / "model", "gemma3_text")))

    result = run("doctor", "--engine", "tiny", "--config", str(config))

    assert result.exit_code == 0, result.stderr
    assert "device " in result.stdout
    assert "tiny can be served" in result.stdout
    rows = {(row[0], row[1]): row[2:] for row in table(result.stdout, "ROLE")}
    tried, agrees, time = rows["the whole model", "this engine's attention"]
    assert tried == "a prompt of 36 tokens, 4 decoded"
    assert agrees == "exactly" or float(agrees.removeprefix("to ")) < 1e-3
    assert time.endswith(" s")
    assert rows["prompt", "tiny"][0] == "240 tokens"
    assert rows["decode", "tiny"][0] == "15 tokens"


@pytest.mark.nightly
def test_a_folder_that_an_engine_would_refuse_ends_the_command_with_the_sentence(
    tmp_path: Path,
) -> None:
    folder = str(save_model(tmp_path, "diffllama"))

    result = run("doctor", "--engine", folder, "--config", str(tmp_path / "none.yaml"))

    assert result.exit_code == 1
    assert "layer 0 attends 2 times per token" in result.stderr
    last = table(result.stdout, "ROLE")[-1]
    assert last[:2] == ["the whole model", "this engine's attention"]
    assert last[3].startswith("no: layer 0 attends 2 times")


def test_a_name_that_no_engine_has_comes_with_those_that_there_are(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(folder="bundled:tiny-chat"))

    result = run("doctor", "--engine", "tinny", "--config", str(config))

    assert result.exit_code == 1
    assert "no engine in" in result.stderr
    assert "it has: tiny" in result.stderr
