"""`strowger import litellm`: write a config.yaml from the configuration of a LiteLLM proxy.

With `--database`, also what it keeps in its database; and with `--write`, issue its keys.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from strowger_gateway.gateway.cli.config_loading import DEFAULT, Faults, faults_shown
from strowger_gateway.gateway.cli.litellm_import.database.people import Translator
from strowger_gateway.gateway.cli.litellm_import.database.reading import read_database
from strowger_gateway.gateway.cli.litellm_import.database.report import (
    issue_keys,
    lines_of,
    write_report,
)
from strowger_gateway.gateway.cli.litellm_import.database.settings import (
    StoredSettings,
    access_groups,
)
from strowger_gateway.gateway.cli.litellm_import.ledger import Listed
from strowger_gateway.gateway.cli.litellm_import.translate import Translation, translate
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.yaml_document import Tree, parse

LARGEST = 2 * 1024 * 1024
"""Bytes of an input, as of config.yaml."""


@click.group("import")
def import_command() -> None:
    """Translate the configuration of another gateway."""


@import_command.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="Write the result to this file, which must not exist. Default: stdout.",
)
@click.option(
    "--database",
    metavar="URL",
    envvar="LITELLM_DATABASE_URL",
    show_envvar=True,
    default=None,
    help="Read LiteLLM's PostgreSQL database, too; nothing in it is changed.",
)
@click.option(
    "--salt-key",
    envvar="LITELLM_SALT_KEY",
    show_envvar=True,
    default="",
    help="Decrypts its credentials; the master key, if the proxy had no salt key.",
)
@click.option(
    "--env",
    "env_file",
    type=click.Path(path_type=Path),
    default=None,
    help="Write secrets that the input contains to this new file, as NAME=VALUE.",
)
@click.option("--write", is_flag=True, help="Issue the keys of the database in the store.")
@click.option("--update", is_flag=True, help="With --write, also change keys that were issued.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=DEFAULT,
    envvar="STROWGER_CONFIG",
    show_default=True,
    show_envvar=True,
    help="With --write: the configuration whose store gets the keys.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default=None,
    help="Write the report to this file, as JSON.",
)
def litellm(
    file: Path | None,
    output: Path | None,
    database: str | None,
    salt_key: str,
    env_file: Path | None,
    config_path: Path,
    report: Path | None,
    *,
    write: bool,
    update: bool,
) -> None:
    """Translate the LiteLLM configuration FILE, and its database, to a config.yaml.

    Comments say which entry each part comes from. What has no translation is listed on stderr and
    at the top of the result: its path, the reason, and what to do instead. Secrets in FILE become
    references to environment variables.

    Keys of the database keep their secrets: --write issues each under the digest that LiteLLM has
    stored, with its models, limits, budgets and what it has spent. Without --write nothing is
    issued.
    """
    if (write and database is None) or (update and not write):
        raise click.UsageError("--write needs --database, and --update needs --write")
    if file is None and database is None:
        raise click.UsageError("name the FILE, or give --database, or both")
    if write and (output is not None or env_file is not None):
        raise click.UsageError("--write takes the keys alone; run it without --output and --env")
    tree, name = _tree(file), str(file or "the database")
    if database is None:
        found = translate(tree)
        _finish(found, name, output, env_file, found.secrets)
        if report is not None:
            write_report(report, found.listed, None, None)
        return
    with faults_shown():
        rows = read_database(database)
    stored = StoredSettings(rows, salt_key)
    tree = stored.merged(tree)
    people = Translator(rows, access_groups(tree)).people()
    if write:
        written = issue_keys(people, config_path, update=update)
        listed = (*people.listed, *written.listed)
        _list(listed)
        for line in lines_of(people, written):
            click.echo(line, err=True)
        if report is not None:
            write_report(report, listed, people, written)
        return
    found = translate(tree, people)
    found = found._replace(listed=(*found.listed, *stored.listed))
    known = {name: stored.variables[name] for name in found.variables if name in stored.variables}
    _finish(found, name, output, env_file, {**known, **found.secrets})
    for line in lines_of(people, None):
        click.echo(line, err=True)
    if report is not None:
        write_report(report, found.listed, people, None)


def _tree(file: Path | None) -> Tree:
    """Parse the file. Raises Faults."""
    if file is None:
        return {}
    problems = Problems(str(file))
    tree = parse(_text(file), problems, version_1_1=True)  # as LiteLLM reads it
    with faults_shown():
        problems.raise_if_any()
    return tree


def _finish(
    found: Translation,
    name: str,
    output: Path | None,
    env_file: Path | None,
    secrets: dict[str, str],
) -> None:
    """Write the result, and say what it lacks. Raises Faults."""
    if not found.models:
        raise Faults(
            (
                f"{name}: model_list has no entry that can be translated",
                *(f"{one.path}: {one.reason}; {one.remedy}" for one in found.listed),
            )
        )
    if output is None:
        click.echo(found.text, nl=False)
    else:
        _create(output, found.text, 0o666)
    if env_file is not None:
        lines = (f"{variable}='{_quoted(value)}'\n" for variable, value in sorted(secrets.items()))
        _create(env_file, "".join(lines), 0o600)
    _list(found.listed)
    click.echo(
        f"{name}: {len(found.translated)} settings translated, {len(found.listed)} listed above",
        err=True,
    )
    if found.variables:
        click.echo(f"environment variables it needs: {', '.join(found.variables)}", err=True)


def _list(listed: Sequence[Listed]) -> None:
    for one in listed:
        click.echo(f"not translated: {one.path}: {one.reason}; {one.remedy}", err=True)


def _quoted(value: str) -> str:
    """Return a value for single quotes of a shell."""
    return value.replace("'", "'\\''")


def _create(path: Path, text: str, mode: int) -> None:
    """Create a file. Raises Faults, also if it exists."""
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(opened, "w", encoding="utf-8") as target:
            target.write(text)
    except OSError as exc:
        raise Faults((f"{path}: cannot write: {exc.strerror}",)) from exc


def _text(file: Path) -> str:
    try:
        with file.open("rb") as source:
            content = source.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise Faults((f"{file}: larger than {LARGEST} bytes",))
        return content.decode()
    except OSError as exc:
        raise Faults((f"{file}: cannot read: {exc.strerror}",)) from exc
    except UnicodeDecodeError as exc:
        raise Faults((f"{file}: is not UTF-8 text",)) from exc
