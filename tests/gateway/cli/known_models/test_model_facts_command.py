"""The facts about models in the commands: models --backends, check, explain."""

import json
from pathlib import Path

import pytest

from tests.gateway.cli.command_line import run

CONFIG = """
providers:
  - {name: openai, adapter: openai, api_key: k}
  - {name: own, adapter: vllm, base_url: "http://127.0.0.1:9/v1"}
models:
  - name: chat
    policy: in_order
    backends: [{provider: own, model: small}, {provider: openai, model: gpt-4o-2024-08-06}]
  - {name: blind, backends: [{provider: own, model: unlisted}]}
capabilities:
  - {match: own/small, context: 100, max_output: 50, tools: false, retires: 2020-01-31}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def test_every_backend_is_listed_with_its_facts_and_their_source(config: Path) -> None:
    shown = run("models", "--backends", "--config", str(config))
    printed = run("models", "--backends", "--json", "--config", str(config))
    small, large, unlisted = json.loads(printed.stdout)

    assert shown.exit_code == 0, shown.output
    assert "128,000" in shown.stdout
    assert "no tools" in shown.stdout
    assert (small["context"], small["tools"], small["source"]) == (100, False, "capabilities[0]")
    assert (large["context"], large["max_output"]) == (128_000, 16_384)
    assert "read on 2026-" in large["source"]
    assert large["url"].startswith("https://")
    assert unlisted == {"model": "blind", "backend": "own/unlisted"}


@pytest.mark.parametrize("words", [("openai", "--backends"), ("--backends", "--probe")])
def test_options_that_exclude_each_other_are_refused(config: Path, words: tuple[str, ...]) -> None:
    result = run("models", *words, "--config", str(config))

    assert result.exit_code == 2
    assert "--backends" in result.stderr


def test_the_check_warns_of_a_model_that_has_retired(config: Path) -> None:
    result = run("check", str(config))

    assert result.exit_code == 0, result.output
    assert (
        f"warning: {config}: own/small: the model retired on 2020-01-31 (capabilities[0]); move to "
        "another model, or correct the date in capabilities\n"
    ) in result.stderr
    assert "own/unlisted" not in result.stderr


def test_explain_names_the_context_that_rules_a_backend_out(config: Path) -> None:
    def explained(text: str, **more: object) -> str:
        messages = [{"role": "user", "content": text}]
        body = json.dumps({"model": "chat", "messages": messages, **more})
        return run("explain", "-", "--config", str(config), typed=body).stdout

    short, long = explained("hi"), explained("word " * 1_000)
    lowered = explained("hi", max_tokens=20_000)

    assert "own/small" in short.partition("ruled out")[0]
    assert "own/small" in long.partition("ruled out")[2]
    assert "maximum context length is 100 tokens" in " ".join(long.split())
    assert "max_tokens 16384" in lowered
    assert "max_tokens 50" in lowered
