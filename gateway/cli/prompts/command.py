"""`strowger prompts`: the prompts of the configuration, and the texts that the store has kept."""

from collections.abc import Iterable
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.config_loading import (
    Faults,
    config_option,
    faults_shown,
    load,
)
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.content.prompts.admin import day
from strowger_gateway.gateway.content.prompts.history import (
    PromptView,
    VersionView,
    difference,
    prompt_views,
)
from strowger_gateway.gateway.content.prompts.text_rows import StoredText, stored_texts
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def prompts() -> None:
    """Prompts: their versions, texts, fields and changes."""


@prompts.command("list")
@config_option
@json_option
def listed(path: Path, as_json: bool) -> None:
    """List the prompts of the configuration, and those that were removed from it."""
    views = _views(load(path))
    if as_json:
        _print_json(views)
        return
    table = table_of("PROMPT", "VERSION", "DIGEST", "NEEDS", "OPTIONAL", "FIRST SEEN", "STATE")
    for prompt in views:
        for one in prompt.versions:
            if not one.current and not prompt.removed:
                continue
            cells = (
                prompt.name,
                one.version,
                one.digest,
                ", ".join(one.fields),
                ", ".join(one.optional),
                day(one.first_seen),
                _state(prompt, one),
            )
            table.add_row(*map(escape, cells))
    show(table)


@prompts.command("show")
@click.argument("name", metavar="NAME[@VERSION]")
@config_option
@json_option
def shown(name: str, path: Path, as_json: bool) -> None:
    """Print the text of a version; without VERSION, of the default one.

    VERSION may also be a digest, as records name texts.
    """
    name, _, version = name.partition("@")
    found = _version(_prompt(load(path), name), version)
    if as_json:
        _print_json(found)
    else:
        click.echo(found.text.removesuffix("\n"))


@prompts.command("diff")
@click.argument("name")
@click.argument("one")
@click.argument("other")
@config_option
def diff(name: str, one: str, other: str, path: Path) -> None:
    """Compare the texts of two versions, or digests, ONE and OTHER of prompt NAME."""
    prompt = _prompt(load(path), name)
    lines = difference(_version(prompt, one), _version(prompt, other), name)
    click.echo("\n".join(lines) if lines else "The texts are the same.")


@prompts.command("history")
@click.argument("name")
@config_option
@json_option
def history(name: str, path: Path, as_json: bool) -> None:
    """Show every text that the versions of prompt NAME have had, and when gateways had it."""
    prompt = _prompt(load(path), name)
    if as_json:
        _print_json(prompt)
        return
    table = table_of("VERSION", "DIGEST", "FIRST SEEN", "LAST SEEN", "STATE")
    for one in sorted(prompt.versions, key=lambda one: one.first_seen or float("inf")):
        cells = (one.version, one.digest, day(one.first_seen), day(one.last_seen))
        table.add_row(*map(escape, (*cells, _state(prompt, one))))
    show(table)


def _views(config: Config) -> tuple[PromptView, ...]:
    return prompt_views(config.prompts, _stored(config))


def _stored(config: Config) -> list[StoredText]:
    """Return what the store has. Without it, what the configuration has is shown all the same."""
    with faults_shown():
        store = open_existing(config.store.url)
    try:
        return stored_texts(store.database)
    except StoreUnavailable as exc:
        click.echo(f"warning: store.url: {exc.message}; earlier texts are missing", err=True)
        return []
    finally:
        store.close()


def _prompt(config: Config, name: str) -> PromptView:
    """Raises Faults if neither the configuration nor the store has the prompt."""
    views = _views(config)
    for one in views:
        if one.name == name:
            return one
    hint = nearest(name, [one.name for one in views])
    raise Faults((f'no prompt is named "{name}"{hint}',))


def _version(prompt: PromptView, version: str) -> VersionView:
    """Raises Faults if the prompt has no such version."""
    found = prompt.find(version)
    if found is None:
        names = dict.fromkeys(one.version for one in prompt.versions)
        raise Faults(
            (f'{prompt.name} has no version "{version}"{nearest(version, names, "versions:")}',)
        )
    return found


def _state(prompt: PromptView, one: VersionView) -> str:
    words: Iterable[str] = (
        "removed" if prompt.removed else "" if one.current else "not in the configuration",
        "default" if one.default else "",
    )
    return ", ".join(filter(None, words))


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
