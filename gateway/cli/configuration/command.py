"""`strowger config show`: every setting with its default, and where its value comes from."""

from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec
from rich.markup import escape
from rich.table import Table

from strowger_gateway.gateway.cli.address import Address, url_option
from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.http_client import admin_key_option, fetch
from strowger_gateway.gateway.cli.part_commands import checked_parts
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.parts.file_type import section_types
from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.gateway.config.settings.setting import Only, Setting
from strowger_gateway.gateway.console.configuration.answer import (
    MOST,
    ConfigInForce,
    SettingsAsked,
    find,
)

_EVERYTHING = 10_000_000


class FileSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints of a file."""

    file: str
    digest: str
    settings: tuple[Setting, ...]


@click.group("config")
def config() -> None:
    """Show the settings of a configuration, without secrets."""


@config.command("show")
@url_option("Show what the gateway at this address runs, instead of the file.")
@admin_key_option
@config_option
@click.option("--defaults", is_flag=True, help="Only settings that the file leaves out.")
@click.option("--only-set", is_flag=True, help="Only settings that the file has.")
@click.option("--section", default="", help="Only this top-level key, such as `models`.")
@click.option("--search", default="", help="Only settings whose key or value contains this text.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_config(
    address: Address | None,
    tls: Tls,
    path: Path,
    admin_key: str,
    defaults: bool,
    only_set: bool,
    section: str,
    search: str,
    as_json: bool,
) -> None:
    """List every setting with its value, its default and its origin: a line, a variable, a file.

    Secrets are `***`. Of a running gateway, it also says if the file on its disk was rejected.
    """
    if defaults and only_set:
        raise click.UsageError("give --defaults or --only-set, not both")
    only: Only = "default" if defaults else "set" if only_set else "all"
    if address is None:
        found = _of_file(path, SettingsAsked(section=section, search=search, only=only))
        if as_json:
            _print(found)
            return
        show(_table(found.settings))
        return
    asked = {"section": section, "search": search, "only": only}
    running = _running(address, admin_key, asked)
    if as_json:
        _print(running)
        return
    show(_table(running.settings))
    if running.rejected is not None:
        click.echo(f"{running.file} was rejected and is not in effect:", err=True)
        for problem in running.rejected.problems:
            click.echo(problem, err=True)


def _of_file(path: Path, asked: SettingsAsked) -> FileSettings:
    """Raises Faults."""
    loaded = load(path)
    every = msgspec.structs.replace(asked, limit=_EVERYTHING)
    found = find(loaded.written, section_types(checked_parts()), every)
    _check_section(asked.section, found.sections)
    return FileSettings(file=str(path), digest=loaded.digest, settings=found.settings)


def _running(address: Address, admin_key: str, asked: dict[str, str]) -> ConfigInForce:
    """Read all pages. Raises Faults."""
    found: list[Setting] = []
    while True:
        query = urlencode({**asked, "limit": MOST, "offset": len(found)})
        page = fetch(address, f"/admin/config?{query}", ConfigInForce, key=admin_key)
        _check_section(asked["section"], page.sections)
        found += page.settings
        if len(found) >= page.total or not page.settings:
            return msgspec.structs.replace(page, settings=tuple(found))


def _check_section(section: str, known: tuple[str, ...]) -> None:
    if section and section not in known:
        raise click.UsageError(f"--section: {section!r} is none of {', '.join(known)}")


def _table(settings: tuple[Setting, ...]) -> Table:
    table = table_of("KEY", "VALUE", "FROM", "DEFAULT")
    for one in settings:
        table.add_row(
            escape(one.path), escape(_text(one.value)), escape(_origin(one)), _default(one)
        )
    return table


def _default(one: Setting) -> str:
    """Return the default where it is not the value itself."""
    return "" if one.origin == "default" else escape(_text(one.default))


def _text(value: str | None) -> str:
    return "(not set)" if value is None else value or '""'


def _origin(one: Setting) -> str:
    place = "" if one.line is None else f"line {one.line}"
    match one.origin:
        case "default":
            return "default"
        case "command_line":
            return "command line"
        case "environment":
            return f"{place}: ${{{'}, ${'.join(one.names)}}}"
        case "file":
            return f"{place}: {', '.join(one.names)}"
        case "config":
            return place


def _print(found: msgspec.Struct) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(found)))
