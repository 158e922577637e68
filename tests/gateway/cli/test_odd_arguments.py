"""Arguments that no command can use end it with a message and not with a traceback."""

from pathlib import Path

import pytest

from tests.gateway.cli.command_line import run
from tests.gateway.serving import one_model

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(one_model(f"{NOWHERE}/v1"))
    return str(file)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("usage", "--days", "800000"), "1<=x<=10000"),
        (("experiments", "votes", "e", "--limit", "9" * 30), "1<=x<=100000"),
        (("health", "--timeout", "inf"), "0<x<=86400"),
        (("models", "--probe", "--timeout", "-1"), "0<x<=86400"),
        (("limits", "--url", "http://[::1"), "--url: Invalid IPv6 URL"),
        (("limits", "--url", "http://h/ä"), "--url: must be ASCII"),
        (("health", "--url", "http://h/ä"), "--url: must be ASCII"),
    ],
)
def test_an_argument_out_of_bounds_is_wrong_usage(
    words: tuple[str, ...], told: str, config: str
) -> None:
    found = run(*words, "--config", config)

    assert found.exit_code == 2
    assert told in found.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("limits", "--url", NOWHERE, "--admin-key", "key\r"),
        ("chat", "m", "--url", NOWHERE, "--key", "key\r"),
        ("explain", "-", "--url", NOWHERE, "--header", "content-length: 3"),
    ],
)
def test_a_header_that_cannot_be_sent_is_a_fault(words: tuple[str, ...], config: str) -> None:
    found = run(*words, "--config", config, typed='{"model": "m", "messages": []}')

    assert found.exit_code == 1
    assert found.stderr.startswith("header ")
