"""The `strowger` command itself: its options, and the commands under it."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import click

from strowger_gateway.gateway.cli.terminal_output import guard_terminal

DISTRIBUTION = "strowger-gateway"

_NAMES = (
    "serve",
    "engine",
    "engines",
    "placement",
    "check",
    "schema",
    "routes",
    "explain",
    "chat",
    "experiments",
    "keys",
    "usage",
    "limits",
    "budgets",
    "records",
    "audit",
    "prices",
    "models",
    "health",
    "doctor",
    "import",
)
"""Names of the commands and, but for the exceptions below, of their modules and functions, in the
order of the help."""

_MODULES = {
    "budgets": "standings.budgets",
    "chat": "chat.command",
    "engine": "engine_server.command",
    "engines": "engine_list.command",
    "experiments": "experiments.command",
    "explain": "explaining.command",
    "import": "litellm_import.command",
    "keys": "issuing.command",
    "limits": "standings.limits",
    "models": "known_models.command",
    "placement": "placement.command",
    "records": "records.command",
}
"""Modules of commands that are in a folder of `gateway/cli`."""

_FUNCTIONS = {"import": "import_command"}
"""Functions that cannot have the name of their command, because it is a keyword of Python."""


_LOGGING = ("serve", "engine")
"""Commands that write logs, which escape what others wrote themselves."""


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "not installed"


class _Commands(click.Group):
    """Import only the module of the requested command, so that `serve` loads no others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _NAMES:
            return None
        module = f"strowger_gateway.gateway.cli.{_MODULES.get(cmd_name, cmd_name)}"
        found = getattr(import_module(module), _FUNCTIONS.get(cmd_name, cmd_name))
        assert isinstance(found, click.Command)
        return found


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="strowger")
@click.pass_context
def strowger(context: click.Context) -> None:
    """LLM gateway: one endpoint for many models, local and remote."""
    if context.invoked_subcommand not in _LOGGING:
        guard_terminal()
