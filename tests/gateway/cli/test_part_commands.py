"""Commands that parts bring to `strowger`: listed, completed and called as its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def strowger(*words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "tests.gateway.cli.watermark_commands", *words),
        cwd=ROOT,
        env={**os.environ, "SHOW_IMPORTS": "1", **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def completed(line: str) -> list[str]:
    """What the shell offers at the end of a line."""
    words = line.split(" ")
    done = strowger(
        env={
            "_STROWGER_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        }
    )
    return [row.partition(",")[2] for row in done.stdout.splitlines()]


def test_the_help_lists_the_commands_of_parts_without_their_modules() -> None:
    done = strowger("--help")

    *_, own, first, second = done.stdout.splitlines()
    assert own.split()[0] == "import"
    assert first == "  watermark    Sign the text TEXT as an answer would be signed."
    assert second == "  fonts        Fonts for watermarks."
    assert done.stderr == "imported: False\n"


def test_a_command_of_a_part_reads_the_configuration_as_all_others(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("providers: []\nmodels: []\n")

    done = strowger("watermark", "hello", "--config", str(config))

    assert (done.returncode, done.stdout) == (0, "hello (of 0 models)\n")
    assert done.stderr == "imported: True\n"
    missing = strowger("watermark", "hello", "--config", str(tmp_path / "none.yaml"))
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith(f"{tmp_path / 'none.yaml'}: cannot be read: ")


def test_a_command_of_a_part_may_be_a_group() -> None:
    assert strowger("fonts", "list", "--wide").stdout == "wide.ttf\n"


def test_an_own_command_imports_nothing_of_a_part() -> None:
    done = strowger("models")

    assert "openai" in done.stdout
    assert done.stderr == "imported: False\n"


def test_who_asks_for_the_state_of_a_gateway_imports_no_part() -> None:
    program = """
import sys
from strowger_gateway.gateway.cli.main import strowger
strowger.main(["health", "--help"], standalone_mode=False)
print("parts:", "strowger_gateway.gateway.assembly.parts" in sys.modules)
"""
    done = subprocess.run(
        (sys.executable, "-c", program), cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "parts: False"


def test_the_reference_of_the_command_line_has_the_commands_of_parts() -> None:
    program = """
from strowger_gateway.gateway.cli.main import command
from tests.gateway.cli.watermark_commands import PARTS
from tools.cli_reference import reference
print(reference(command(lambda: PARTS["fine"])))
"""
    done = subprocess.run(
        (sys.executable, "-c", program), cwd=ROOT, capture_output=True, text=True, check=True
    )

    _, _, page = done.stdout.partition("## strowger import litellm\n")
    headings = [row for row in page.splitlines() if row.startswith("## ")]
    assert headings == ["## strowger watermark", "## strowger fonts", "## strowger fonts list"]
    assert "By the configuration." in page


def test_a_wrong_command_is_refused() -> None:
    done = strowger("watermrk")

    assert done.returncode == 2
    assert "No such command 'watermrk'" in done.stderr


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("strowger wat", ["watermark"]),
        ("strowger fo", ["fonts"]),
        ("strowger check", ["check"]),
        ("strowger fonts ", ["list"]),
        ("strowger fonts list --w", ["--wide"]),
        ("strowger --v", ["--version"]),
    ],
)
def test_a_shell_completes_commands_of_parts(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            "own",
            "the part 'checks' brings a command 'check', which the gateway itself has already; "
            "rename it",
        ),
        (
            "twice",
            "the part 'second' brings a command 'fonts', which the part 'watermark' has already; "
            "rename it",
        ),
    ],
)
@pytest.mark.parametrize("words", [("--help",), ("fonts", "list")])
def test_two_commands_of_one_name_are_an_error(
    parts: str, message: str, words: tuple[str, ...]
) -> None:
    done = strowger(*words, env={"PARTS": parts})

    assert done.returncode == 1
    assert done.stdout == ""
    assert f"Error: {message}\n" in done.stderr
