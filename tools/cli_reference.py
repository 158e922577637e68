"""Write docs/reference/cli.md from the commands: `make cli-reference`."""

from collections.abc import Iterator
from pathlib import Path

import click

from strowger_gateway.gateway.cli.main import strowger

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
_HEAD = """# Command line

<!-- Written by `make cli-reference`; a test compares this page with the commands. -->

Every command, with its arguments and options, as `--help` prints them.
"""
_WIDTH = 100


def _commands(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[tuple[str, str]]:
    context = command.context_class(
        command,
        info_name=name,
        parent=parent,
        terminal_width=_WIDTH,
        **command.context_settings,  # such as the names of the help option
    )
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from _commands(found, child, context)


def reference(group: click.Group = strowger) -> str:
    """Return the page: a heading and the help text per command, groups before their members."""
    parts = (
        f"\n## {path}\n\n```text\n{text.rstrip()}\n```\n"
        for path, text in _commands(group, "strowger", None)
    )
    return _HEAD + "".join(parts)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(reference(), "utf-8")
