"""`strowger store check`: whether the rows of the store belong together."""

from pathlib import Path

import click
import msgspec

from strowger_gateway.gateway.cli.config_loading import Faults, config_option, faults_shown, load
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema_store import SQLITE
from strowger_gateway.gateway.storage.checking.integrity import check_store
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(path: Path, *, as_json: bool) -> None:
    """Count the rows of the store, and check that they belong together; change nothing.

    Finds rows whose owner is missing, sums that are wrong, a damaged SQLite file, and every row of
    the audit log that was changed or removed. The exit status is 1 if there is anything.
    """
    config = load(path)
    with faults_shown():
        store = open_existing(config.store.url)
        try:
            sqlite = config.store.url.reveal().startswith(SQLITE)
            found = check_store(store.database, sqlite=sqlite)
        except StoreUnavailable as exc:
            raise Faults((f"store.url: {exc.message}",)) from exc
        finally:
            store.close()
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    else:
        table = table_of("TABLE", "ROWS")
        for name, count in sorted(found.rows.items()):
            table.add_row(name, f"{count:,}")
        show(table)
        click.echo(f"audit log: {found.audit_rows:,} rows, head {found.head}")
    if found.breaches:
        raise Faults(
            tuple(
                f"{one.table}: {one.count:,} {one.what}; {one.remedy}"
                if one.count > 1
                else f"{one.table}: {one.what}; {one.remedy}"
                for one in found.breaches
            )
        )
    if not as_json:
        click.echo("no fault found")
