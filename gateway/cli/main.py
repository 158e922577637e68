"""The `strowger` command itself: its options, and the commands under it."""

from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from strowger_gateway.gateway.cli.own_commands import NAMES, own_command
from strowger_gateway.gateway.cli.part_commands import checked_parts, commands_of, imported
from strowger_gateway.gateway.cli.terminal_output import guard_terminal

if TYPE_CHECKING:
    from strowger_gateway.gateway.parts.part import Part

DISTRIBUTION = "strowger-gateway"

_LOGGING = ("serve", "engine")
"""Commands that write logs, which escape what others wrote themselves."""


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "not installed"


class _Commands(click.Group):
    """Import only the module of the requested command, so that `serve` loads no others."""

    parts: "Callable[[], Sequence[Part]]" = staticmethod(checked_parts)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*NAMES, *commands_of(self.parts())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in NAMES:
            return own_command(cmd_name)
        found = commands_of(self.parts()).get(cmd_name)
        return None if found is None else imported(found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        most = formatter.width - 6 - max(map(len, names))
        rows = [(one, self._listed(ctx, one).get_short_help_str(most)) for one in names]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=self._listed(ctx, name).get_short_help_str())
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _listed(self, ctx: click.Context, name: str) -> click.Command:
        """Return what lists show of a command. Those of parts are not imported for it."""
        if name in NAMES:
            return own_command(name)
        return click.Command(name, help=commands_of(self.parts())[name].help)


def command(parts: "Callable[[], Sequence[Part]]" = checked_parts) -> click.Group:
    """Return `strowger` with the commands of these parts."""

    @click.group(
        "strowger", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}
    )
    @click.version_option(_version(), prog_name="strowger")
    @click.pass_context
    def group(context: click.Context) -> None:
        """LLM gateway: one endpoint for many models, local and remote."""
        if context.invoked_subcommand not in _LOGGING:
            guard_terminal()

    group.parts = parts
    return group


strowger = command()
