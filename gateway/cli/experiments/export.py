"""`strowger experiments export`: write the rows from which reports are computed."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path

import click
from msgspec import Struct

from strowger_gateway.gateway.cli.config_loading import Faults, config_option, faults_shown, load
from strowger_gateway.gateway.cli.experiments.history import known_name, opened
from strowger_gateway.gateway.experiments.export import (
    TABLES,
    Pages,
    pages_of,
    write_csv,
    write_parquet,
)


@click.command()
@click.argument("name")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write. Default: standard output, CSV only.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet"]),
    help="Default: parquet for FILE.parquet, else csv.",
)
@click.option(
    "--table",
    type=click.Choice([*TABLES]),
    default="units",
    show_default=True,
    help="Which rows; by default one per metric, unit, epoch and variant.",
)
@config_option
def export(name: str, output: Path | None, form: str | None, table: str, path: Path) -> None:
    """Write the rows from which the report of experiment NAME is computed.

    Works for experiments that were removed from the configuration, too.
    """
    if output is not None and not output.name:
        raise click.UsageError("--output needs the name of a file")
    ending = output.suffix.lower() if output is not None else ""
    form = form or ("parquet" if ending == ".parquet" else "csv")
    if output is None and form == "parquet":
        raise click.UsageError("parquet is binary; give a file with --output")
    config = load(path)
    with opened(config) as store:
        known = known_name(config, store, name)
        with store.database.reading() as session:
            _write(known, table, pages_of(session, known, table), output, form)


def _write(name: str, table: str, pages: Pages, output: Path | None, form: str) -> None:
    if output is None:
        text = StringIO(newline="")
        write_csv(name, table, _printed(pages, text), text)
        _print(text)
        return
    with faults_shown(), complete_file(output) as part:
        if form == "parquet":
            count = write_parquet(name, table, pages, part)
        else:
            with part.open("w", encoding="utf-8", newline="") as file:
                count = write_csv(name, table, pages, file)
    click.echo(f"{output}: {count:,} rows", err=True)


def _printed(pages: Pages, text: StringIO) -> Generator[Sequence[Struct]]:
    """Yield pages; print the text of each before the next."""
    for page in pages:
        yield page
        _print(text)


def _print(text: StringIO) -> None:
    click.echo(text.getvalue().encode(), nl=False)
    text.seek(0)
    text.truncate()


@contextmanager
def complete_file(output: Path) -> Generator[Path]:
    """Yield a temporary file that replaces `output` when it is complete.

    A device or a pipe is yielded itself, and of a link the file that it leads to is replaced.
    """
    part: Path | None = None
    try:
        if output.exists() and not output.is_file():
            yield output
            return
        target = output.resolve()
        part = target.with_name(f"{target.name}.part")
        yield part
        part.replace(target)
    except OSError as exc:
        raise Faults((f"{output}: cannot be written: {exc.strerror or exc}",)) from exc
    finally:
        if part is not None:
            with suppress(OSError):  # a name that cannot be written cannot be removed either
                part.unlink(missing_ok=True)
