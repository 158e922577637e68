"""Options that name the caller whose limits or budgets a command shows."""

from collections.abc import Callable
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])


def whose_options(command: F) -> F:
    """`--key NAME`, `--end-user TEXT`, `--team NAME` and `--user NAME`."""
    end_user = "Only this end user of it, as clients send it."
    for option in (
        click.option("--user", default="", metavar="NAME", help=_of_token("user")),
        click.option("--team", default="", metavar="NAME", help=_of_token("team")),
        click.option("--end-user", default="", metavar="TEXT", help=end_user),
        click.option("--key", default="", metavar="NAME", help="Only what applies to this key."),
    ):
        command = option(command)
    return command


def _of_token(what: str) -> str:
    return f"The {what}, if --key is of a token."
