"""`strowger explain` says what becomes of a conversation that its client has compacted."""

import json
from pathlib import Path

import pytest

from tests.gateway.cli.command_line import run

CONFIG = """
providers: [{name: a, adapter: mistral, api_key: k}]
models: [{name: chat, backends: [{provider: a, model: m}]}]
"""
SAID = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        ("/v1/responses", {"input": [SAID, {"type": "compaction_trigger"}]}, "is a summary"),
        ("/v1/responses/compact", {"input": [SAID]}, "is a summary"),
        (
            "/v1/responses",
            {
                "input": [SAID],
                "context_management": [{"type": "compaction", "compact_threshold": 9000}],
            },
            "an input of more than 9000 tokens is summarised",
        ),
    ],
    ids=["trigger", "route", "threshold"],
)
def test_explain_says_what_becomes_of_a_long_conversation(
    tmp_path: Path, path: str, given: dict[str, object], said: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)

    words = ("explain", "-", "--config", str(config), "--surface", path)
    result = run(*words, typed=json.dumps({"model": "chat", **given}))

    assert result.exit_code == 0, result.output
    assert said in result.output
