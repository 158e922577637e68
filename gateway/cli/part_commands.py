"""Commands that parts bring to `strowger`; each is imported when it is called."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import click

from strowger_gateway.gateway.cli.own_commands import NAMES

if TYPE_CHECKING:
    from strowger_gateway.gateway.parts.console import Command
    from strowger_gateway.gateway.parts.part import Part


@cache
def checked_parts() -> "Sequence[Part]":
    """Return all parts. Raises ClickException as `commands_of`."""
    # Late: `strowger health` runs every few seconds and needs none of them.
    from strowger_gateway.gateway.assembly.parts import PARTS

    commands_of(PARTS)
    return PARTS


def commands_of(parts: "Iterable[Part]") -> "Mapping[str, Command]":
    """Return the commands of parts by name. Raises ClickException for a name that another has."""
    found: dict[str, Command] = {}
    owners: dict[str, str] = dict.fromkeys(NAMES, "the gateway itself")
    for part in parts:
        for command in part.commands():
            owner = owners.setdefault(command.name, f"the part {part.name!r}")
            if command.name in found or command.name in NAMES:
                raise click.ClickException(
                    f"the part {part.name!r} brings a command {command.name!r}, "
                    f"which {owner} has already; rename it"
                )
            found[command.name] = command
    return found


def imported(command: "Command") -> click.Command:
    """Import a part's command."""
    module, _, name = command.target.partition(":")
    found = getattr(import_module(module), name)
    assert isinstance(found, click.Command)
    return found
