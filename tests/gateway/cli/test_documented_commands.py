"""The program accepts every command line in the documentation."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from strowger_gateway.gateway.cli.main import strowger

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "config.yaml")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
SPAN = re.compile(r"`(strowger [^`]+)`")
LINE = re.compile(r"^(?:[#$] +)?(?:\.venv/bin/)?(strowger [a-z].*)$")
END = re.compile(r"\s#\s|\s[<>|]|\s{2,}| && ")


def written() -> Iterator[str]:
    """Command lines in code blocks and in text, without comments and redirections."""
    for page in PAGES:
        if not page.is_file():
            continue
        fenced = page.suffix != ".md"
        for line in page.read_text("utf-8").replace("\\\n", " ").splitlines():
            if line.startswith("```"):
                fenced = not fenced
                continue
            found = LINE.findall(line.strip()) if fenced else SPAN.findall(line)
            yield from (END.split(one)[0] for one in found)


LINES = sorted(set(written()))


def parse(command: click.Command, context: click.Context, words: list[str]) -> None:
    """Raises UsageError for an argument that the command does not accept."""
    if not words and isinstance(command, click.Group):  # the text names a group of commands
        return
    if isinstance(command, click.Group) and not words[0].startswith("-"):
        name, found, rest = command.resolve_command(context, words)
        assert found is not None
        with found.context_class(found, parent=context, info_name=name) as inner:
            parse(found, inner, rest)
        return
    options, _, _ = command.make_parser(context).parse_args(list(words))
    assert set(options) <= {parameter.name for parameter in command.params}


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_documentation_is_taken(line: str) -> None:
    words = shlex.split(line.replace("[MODEL]", "MODEL"))[1:]

    with click.Context(strowger, info_name="strowger") as context:
        parse(strowger, context, words)


def test_the_documentation_has_commands_at_all() -> None:
    assert len(LINES) >= 20
