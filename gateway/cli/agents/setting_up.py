"""Set an agent up, take that back, and verify it."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from strowger_gateway.gateway.cli.address import Address
from strowger_gateway.gateway.cli.agents import files
from strowger_gateway.gateway.cli.agents.certificate import refusal
from strowger_gateway.gateway.cli.agents.gateway_models import GatewayModel, chosen, models_of
from strowger_gateway.gateway.cli.agents.settings import (
    FileChange,
    found_at,
    path_of,
    planned,
    snippet,
    undone,
    write,
    write_undone,
)
from strowger_gateway.gateway.cli.agents.tools.tool import KEY, AgentTarget, SettingsPlace, Tool
from strowger_gateway.gateway.cli.agents.trial import ask, proxy_hint
from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.connection import Tls

SHOWN = "YOUR_KEY"
NO_KEY = "none"
"""What an agent sends to a gateway without keys; all want something."""


class Asked(Struct, frozen=True, kw_only=True):
    """What a user wants. issue: the name of a key to issue into the store of `config`.

    write: `None` asks at a terminal, and prints without one.
    """

    address: Address
    key: str
    issue: str | None
    config: Config | None
    model: str | None
    store_key: bool
    write: bool | None
    check: bool


def set_up(tool: Tool, place: SettingsPlace, asked: Asked) -> None:
    """Raises Faults, also if the request through the gateway fails."""
    if asked.store_key:
        _refuse_in_git(tool, place)
    key = asked.key if asked.issue is None else _issued(asked)
    models = models_of(asked.address, key)
    model = chosen(models, asked.model, asked.address)
    secret = (key if asked.store_key else "") if key else NO_KEY
    target = model.target(asked.address.url, secret)
    changes = planned(tool, target, place)
    if asked.write or (asked.write is None and _agreed(tool, changes)):
        write(changes)
        _report(changes)
    else:
        _print(planned(tool, model.target(asked.address.url, _shown(secret)), place))
    _say_rest(tool, target, model, asked, key, place)
    if asked.check:
        _try(tool, model.id, asked.address, key)


def take_back(tool: Tool, place: SettingsPlace) -> None:
    """Raises Faults."""
    changes = undone(tool, place)
    if not changes:
        raise Faults((f"{tool.name} is not set up in {path_of(tool, place)}; nothing to undo",))
    write_undone(changes)
    for one in changes:
        what = "removed" if one.after is None else "as before"
        names = f": {', '.join(one.names)}" if one.names and one.after is not None else ""
        click.echo(f"{one.file.path}: {what}{names}")


def verify(tool: Tool, place: SettingsPlace, expected: Address | None, tls: Tls, key: str) -> None:
    """Raises Faults."""
    url, model = found_at(tool, place, tool.url_at), found_at(tool, place, tool.model_at)
    if url is None or model is None:
        remedy = f"`strowger agents setup {tool.name}`"
        raise Faults((f"{tool.name} is not set up in {path_of(tool, place)}; {remedy}",))
    if expected is not None and expected.url != url:
        raise Faults((f"{path_of(tool, place)} has {url}, not {expected.url}",))
    stored = found_at(tool, place, tool.key_at) or ""
    if stored == NO_KEY or KEY in stored:
        stored = ""
    key = stored or place.env.get(tool.key_variable, "") or key
    authority = place.env.get(tool.ca_variable) if tool.ca_variable else None
    if authority and expected is None and tls.ca_file is None and refusal(url, None):
        tls = msgspec.structs.replace(tls, ca_file=authority)
    address = Address(url=url, tls=tls) if expected is None else expected
    found = chosen(models_of(address, key), model, address)
    secret = stored or ("" if key else NO_KEY)
    _warn([*found.warnings(), *_in_the_way(tool, place, url)])
    for one in planned(tool, found.target(url, secret), place):
        if one.names or (one.file.whole and one.after != one.before):
            what = ", ".join(one.names) or "the description of the model"
            _warn([f"{one.file.path}: {what}: not as the gateway has it now; set up again"])
    _try(tool, model, address, key)


def _refuse_in_git(tool: Tool, place: SettingsPlace) -> None:
    holder = AgentTarget(url="http://127.0.0.1", model="any", secret="any")
    for one in tool.files(holder, place):
        why = files.git_takes(one.path) if one.holds_secret else ""
        if why:
            raise Faults(
                (f"--store-key: {one.path}: {why}; leave the key in {tool.key_variable} instead",)
            )


def _issued(asked: Asked) -> str:
    # Late: without --issue no store is opened.
    from strowger_gateway.gateway.cli.agents.new_key import issued

    assert asked.issue is not None
    assert asked.config is not None
    return issued(asked.config, asked.issue)


def _agreed(tool: Tool, changes: Sequence[FileChange]) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    for one in changes:
        words = ", ".join(one.names) or "as a whole"
        click.echo(f"{one.file.path}: {words}")
    return click.confirm(f"Write these settings of {tool.title}?", default=True)


def _report(changes: Sequence[FileChange]) -> None:
    for one in changes:
        if one.after == one.before:
            click.echo(f"{one.file.path}: is as it should be", err=True)
            continue
        kept = files.backup_of(one.file.path)
        copy = f" (as it was: {kept.name})" if kept.exists() else ""
        words = f": {', '.join(one.names)}" if one.names else ""
        click.echo(f"{one.file.path}: written{copy}{words}", err=True)
        if one.original is not None and files.git_sees_copy(one.file.path):
            what = f"git ignores {one.file.path}, and would add its copy {kept.name}"
            _warn([f"{what}: add that to .gitignore or .git/info/exclude"])


def _shown(secret: str) -> str:
    """A key that a file may hold does not belong on a screen, or in the log of a job."""
    return SHOWN if secret and secret != NO_KEY else secret


def _print(changes: Sequence[FileChange]) -> None:
    for one in changes:
        click.echo(f"# {one.file.path}\n{snippet(one.file)}")


def _say_rest(
    tool: Tool,
    target: AgentTarget,
    model: GatewayModel,
    asked: Asked,
    key: str,
    place: SettingsPlace,
) -> None:
    """Say what the shell needs, and what is in the way."""
    address = asked.address
    lines: list[str] = []
    if key and not target.secret:
        shown = key if asked.issue is not None else SHOWN
        lines.append(f"export {tool.key_variable}={shlex.quote(shown)}")
    elif asked.issue is not None:
        lines.append(f"export {KEY}={shlex.quote(key)}")
    authority = address.pinned or address.tls.ca_file
    if authority is not None and address.url.startswith("https:") and tool.ca_variable:
        lines.append(f"export {tool.ca_variable}={shlex.quote(str(Path(authority).absolute()))}")
    if lines:
        click.echo("add to the shell's profile (~/.bashrc, ~/.zshrc):", err=True)
        for line in lines:
            click.echo(f"  {line}", err=True)
    notes = [*model.warnings(), *tool.notes(target), *_in_the_way(tool, place, address.url)]
    if why := refusal(address.url, authority):
        notes.append(
            f"{tool.title} does not accept the gateway's certificate: {why}; give --url with a "
            "name that the certificate has, and --ca-file with its root authority"
        )
    if address.tls.client_cert is not None:
        notes.append(f"this command has shown a client certificate; {tool.title} needs its own")
    other = place.env.get(tool.key_variable, "") if key and not target.secret else ""
    if other not in ("", key):
        notes.append(f"{tool.key_variable} is set in this shell, to another key than this one")
    _warn(notes)


def _in_the_way(tool: Tool, place: SettingsPlace, url: str) -> list[str]:
    """Return what in this shell keeps the agent from its settings or from the gateway."""
    found = [
        f"{name} is set in this shell and wins over the settings: `unset {name}`"
        for name in tool.overriding
        if place.env.get(name)
    ]
    return [*found, *filter(None, [proxy_hint(url)])]


def _warn(lines: Sequence[str]) -> None:
    for one in lines:
        click.echo(f"note: {one}", err=True)


def _try(tool: Tool, model: str, address: Address, key: str) -> None:
    found = ask(address, tool.dialect, model, key)
    backend = f" by {found.backend}" if found.backend else ""
    click.echo(
        f"{model} answered {found.path} in {found.ms} ms{backend}: "
        f"{found.prompt} tokens read, {found.answer} written",
        err=True,
    )
