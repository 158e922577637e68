"""`strowger records`: `export` copies what was recorded to Parquet; `payloads` reads bodies."""

from pathlib import Path

import click

from strowger_gateway.gateway.cli.config_loading import Faults, config_option, faults_shown, load
from strowger_gateway.gateway.cli.records.payloads import payload, payloads
from strowger_gateway.gateway.storage.parquet.export import PART_ROWS, Export
from strowger_gateway.gateway.storage.parquet.target import open_target
from strowger_gateway.gateway.storage.parquet.turns import turn
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_store


@click.group()
def records() -> None:
    """Recorded requests and attempts, and logged bodies."""


records.add_command(payloads)
records.add_command(payload)


@records.command()
@config_option
@click.option(
    "--to",
    "where",
    required=True,
    metavar="WHERE",
    help="A folder, or s3://BUCKET/PREFIX with the options of pyarrow, such as ?region=eu-west-1.",
)
@click.option(
    "--part-rows",
    type=click.IntRange(1, 1_000_000),
    default=PART_ROWS,
    show_default=True,
    help="Most rows of a file.",
)
def export(path: Path, where: str, part_rows: int) -> None:
    """Copy new requests and attempts to Parquet files by day, each row exactly once.

    Continues where the last run to the same place ended, also if that was killed.
    """
    config = load(path)
    with faults_shown():
        target = open_target(where)
        store = open_store(config.store.url)
        try:
            with turn(store.database, config.store.url, where) as held:
                if held is None:
                    why = f"--to: another process exports to {_shown(where)}; wait for it"
                    raise Faults((why,))
                found = Export(store.database, target, part_rows).run(
                    lambda line: click.echo(line, err=True)
                )
        except StoreUnavailable as exc:
            raise Faults((str(exc),)) from exc
        except OSError as exc:
            raise Faults((f"--to: {_shown(where)}: {exc.strerror or exc}",)) from exc
        finally:
            store.close()
            target.close()
    counted = ", ".join(f"{count:,} {name}" for name, count in found.rows.items())
    click.echo(f"{counted} in {found.files} new files")


def _shown(where: str) -> str:
    """Return the place without credentials, which an address may have before `@`."""
    kind, sign, place = where.partition("://")
    return f"{kind}{sign}{place.partition('?')[0].rpartition('@')[2]}"
