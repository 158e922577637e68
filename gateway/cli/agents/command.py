"""`strowger agents`: set up coding agents for the gateway, list them, and check them."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Final, TypeVar

import click
import msgspec
from msgspec import Struct
from rich.markup import escape

from strowger_gateway.gateway.cli.address import Address, address_of, url_option
from strowger_gateway.gateway.cli.agents.setting_up import Asked, set_up, take_back, verify
from strowger_gateway.gateway.cli.agents.settings import found_at, path_of
from strowger_gateway.gateway.cli.agents.tools.roster import TOOLS
from strowger_gateway.gateway.cli.agents.tools.tool import KEY, SettingsPlace, Tool
from strowger_gateway.gateway.cli.config_loading import Faults, config_option, load
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.connection import Tls

_VERSION: Final = re.compile(r"(?:/v1|/v1beta)?/*$")

F = TypeVar("F", bound=Callable[..., object])

_tool = click.argument("tool", type=click.Choice(list(TOOLS)), metavar="TOOL")
_project = click.option(
    "--project", is_flag=True, help="The settings of this folder, instead of the user's."
)
_key = click.option(
    "--key", default="", envvar=KEY, show_envvar=True, help="Client key, if the gateway needs one."
)


@click.group()
def agents() -> None:
    """Coding agents: point them at the gateway, list them, and check that they reach it."""


@agents.command()
@_tool
@url_option("URL of the gateway. Default: the address in the configuration.")
@_key
@click.option("--issue", metavar="NAME", help="Issue a key of this name into the gateway's store.")
@click.option("--model", help="Model that the agent gets. Default: the only one.")
@_project
@click.option("--store-key", is_flag=True, help="Write the key into the settings, too.")
@click.option(
    "--write/--print",
    "write",
    default=None,
    help="Write the settings, or print them. Default: ask at a terminal, else print.",
)
@click.option("--undo", is_flag=True, help="Take the settings back.")
@click.option("--no-check", is_flag=True, help="Send no request through the gateway.")
@config_option
def setup(
    address: Address | None,
    tls: Tls,
    tool: str,
    key: str,
    issue: str | None,
    model: str | None,
    project: bool,
    store_key: bool,
    write: bool | None,
    undo: bool,
    no_check: bool,
    path: Path,
) -> None:
    """Write the settings with which TOOL uses the gateway, and send one request as it does.

    Other settings of its files stay, with their comments; a copy of each is kept next to it.
    The key stays in a variable of the shell, which the command names, unless --store-key is given.
    """
    found, place = TOOLS[tool], _place(TOOLS[tool], project=project)
    if undo:
        take_back(found, place)
        return
    if issue is not None and key:
        raise click.UsageError("--issue makes a key; --key or its variable is one already")
    config = load(path) if address is None or issue is not None else None
    if address is None:
        assert config is not None
        address = address_of(config, tls)
    asked = Asked(
        address=_without_v1(address),
        key=key,
        issue=issue,
        config=config,
        model=model,
        store_key=store_key,
        write=write,
        check=not no_check,
    )
    set_up(found, place, asked)


@agents.command()
@_tool
@url_option("URL that the settings must have. Default: the one that they have.")
@_key
@_project
def check(address: Address | None, tls: Tls, tool: str, key: str, project: bool) -> None:
    """Send one request as TOOL would with its settings, and compare them with the gateway's facts.

    The exit status is 1 if it cannot work.
    """
    found = TOOLS[tool]
    expected = None if address is None else _without_v1(address)
    verify(found, _place(found, project=project), expected, tls, key)


class _Row(Struct, frozen=True, kw_only=True):
    """JSON of `list`. url, model: `None` if it is not set up."""

    name: str
    api: str
    installed: bool
    url: str | None = None
    model: str | None = None
    problem: str | None = None
    file: str


@agents.command("list")
@_project
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def listed(project: bool, as_json: bool) -> None:
    """List the agents: the API that each uses, whether it is installed, and where it points."""
    rows = [_row(one, project=project) for one in TOOLS.values() if one.project or not project]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return
    table = table_of("TOOL", "API", "INSTALLED", "MODEL", "GATEWAY", "SETTINGS")
    for row in rows:
        seen = "unreadable" if row.problem else row.url or "-"
        cells = (row.name, row.api, "yes" if row.installed else "-", row.model or "-", seen)
        table.add_row(*map(escape, (*cells, row.file)))
    show(table)
    for row in rows:
        if row.problem:
            click.echo(f"note: {row.problem}", err=True)


def _row(tool: Tool, *, project: bool) -> _Row:
    place = _place(tool, project=project)
    try:
        url = found_at(tool, place, tool.url_at)
        model = None if url is None else found_at(tool, place, tool.model_at)
        problem = None
    except Faults as exc:  # one broken file is shown in its row
        url, model, problem = None, None, exc.message
    return _Row(
        name=tool.name,
        api=tool.dialect,
        installed=which(tool.program) is not None,
        url=url,
        model=model,
        problem=problem,
        file=str(path_of(tool, place)),
    )


def _place(tool: Tool, *, project: bool) -> SettingsPlace:
    """Raises click.UsageError."""
    if project and not tool.project:
        raise click.UsageError(
            f"--project: {tool.title} reads these settings from the user's own files alone"
        )
    try:
        home = Path.home()
    except RuntimeError as exc:
        raise click.UsageError("no home folder is known; set HOME") from exc
    if not os.environ.get("HOME", "/"):  # what Python takes for the root of all folders
        raise click.UsageError("HOME is empty; set it, or unset it for the user's own")
    return SettingsPlace(home=home, project=Path.cwd() if project else None, env=dict(os.environ))


def _without_v1(address: Address) -> Address:
    """Agents and this command append the paths themselves."""
    return msgspec.structs.replace(address, url=_VERSION.sub("", address.url))
