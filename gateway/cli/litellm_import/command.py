"""`strowger import litellm`: write a config.yaml from the configuration of a LiteLLM proxy."""

from pathlib import Path

import click

from strowger_gateway.gateway.cli.config_loading import Faults, faults_shown
from strowger_gateway.gateway.cli.litellm_import.translate import translate
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.yaml_document import parse

LARGEST = 2 * 1024 * 1024
"""Bytes of an input, as of config.yaml."""


@click.group("import")
def import_command() -> None:
    """Translate the configuration of another gateway."""


@import_command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="Write the result to this file, which must not exist. Default: stdout.",
)
def litellm(file: Path, output: Path | None) -> None:
    """Translate the LiteLLM configuration FILE to a config.yaml.

    Comments say which entry each part comes from. What has no translation is listed on stderr and
    at the top of the result: its path, the reason, and what to do instead. Secrets in FILE become
    references to environment variables.
    """
    problems = Problems(str(file))
    tree = parse(_text(file), problems, version_1_1=True)  # as LiteLLM reads it
    with faults_shown():
        problems.raise_if_any()
    found = translate(tree)
    if not found.models:
        raise Faults(
            (
                f"{file}: model_list has no entry that can be translated",
                *(f"{one.path}: {one.reason}; {one.remedy}" for one in found.listed),
            )
        )
    if output is None:
        click.echo(found.text, nl=False)
    else:
        try:
            with output.open("x", encoding="utf-8") as target:
                target.write(found.text)
        except OSError as exc:
            raise Faults((f"{output}: cannot write: {exc.strerror}",)) from exc
    for one in found.listed:
        click.echo(f"not translated: {one.path}: {one.reason}; {one.remedy}", err=True)
    click.echo(
        f"{file}: {len(found.translated)} settings translated, {len(found.listed)} listed above",
        err=True,
    )
    if found.variables:
        click.echo(f"environment variables it needs: {', '.join(found.variables)}", err=True)


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
