"""Shared options of commands that use a running gateway."""

from collections.abc import Callable
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])


def url_option(words: str) -> Callable[[F], F]:
    """`--url URL`; words: its help text."""
    return click.option("--url", default=None, envvar="STROWGER_URL", show_envvar=True, help=words)


def admin_key_option(command: F) -> F:
    """`--admin-key KEY`."""
    return click.option(
        "--admin-key",
        default="",
        envvar="STROWGER_ADMIN_KEY",
        show_envvar=True,
        help="The running gateway's auth.admin_key.",
    )(command)
