"""`strowger store`: copy the database to another one, such as to PostgreSQL, and check it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from strowger_gateway.gateway.cli.config_loading import Faults, faults_shown
from strowger_gateway.gateway.cli.os_user import os_user
from strowger_gateway.gateway.cli.store.checking import check
from strowger_gateway.gateway.cli.store.progress import shown_progress
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema_store import POSTGRES, SQLITE, postgres_address
from strowger_gateway.gateway.storage.copying.copy import CopyEnding, CopyResult, StoreCopy
from strowger_gateway.gateway.storage.copying.values import LeftOutRow
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.schemas.secret import Secret

_SHOWN_ROWS: Final = 10
_DIGITS: Final = 16
"""Of a checksum, in the table."""

_ENDED: Final = {
    "keep": "{to} is a verified copy as of now, and closed for gateways; run this again to bring "
    "it up to date, with --switch to move to it, or with --open to use it apart",
    "open": "{to} is open for gateways, and apart from {source} from now on",
    "switch": "{source} is closed, and {to} continues it. In config.yaml, set store.url to the "
    "new address and store.moved_from to the old one, and restart each gateway; until then it "
    "serves on and buffers its records",
}


@click.group()
def store() -> None:
    """The database of keys, usage, experiments and responses: copy it, and check it."""


store.add_command(check)


def _address(context: click.Context, parameter: click.Parameter, value: str) -> Secret:
    """Return an address with an absolute path. Raises click.BadParameter."""
    if value.startswith(SQLITE) and value != SQLITE:
        return Secret(f"{SQLITE}{Path(value.removeprefix(SQLITE)).resolve()}")
    if not value.startswith(POSTGRES):
        raise click.BadParameter("must be sqlite:///FILE or postgresql://HOST/NAME")
    try:
        postgres_address(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None
    return Secret(value)


@store.command()
@click.option(
    "--from",
    "source",
    required=True,
    metavar="URL",
    envvar="STROWGER_COPY_FROM",
    show_envvar=True,
    callback=_address,
    help="The database that gateways use: sqlite:///FILE or postgresql://HOST/NAME.",
)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="URL",
    envvar="STROWGER_COPY_TO",
    show_envvar=True,
    callback=_address,
    help="An empty database, or one that an earlier run has begun to fill.",
)
@click.option("--switch", is_flag=True, help="Then close the source: the target continues it.")
@click.option("--open", "opens", is_flag=True, help="Then open the target, as a copy of its own.")
@click.option(
    "--left-out",
    type=click.Path(path_type=Path),
    default=None,
    help="Write rows that the target cannot hold to this new file, as JSON lines, and go on.",
)
def copy(
    source: Secret, target: Secret, *, switch: bool, opens: bool, left_out: Path | None
) -> None:
    """Copy every table to another database, and verify each row.

    Gateways go on serving. A run that was killed continues where it was; one that has ended is
    brought up to date by another. At the end, for the last comparison, nothing is written to the
    source for a moment, and gateways buffer their records.
    """
    if switch and opens:
        raise click.UsageError("--switch and --open exclude each other")
    ending: CopyEnding = "switch" if switch else "open" if opens else "keep"
    with faults_shown():
        try:
            run = StoreCopy(source, target)
            try:
                if run.done:
                    click.echo(_ENDED["switch"].format(source=run.source_name, to=run.target_name))
                    return
                with shown_progress() as shown:
                    found = run.run(ending, os_user(), shown, lambda rows: _note(rows, left_out))
            finally:
                run.close()
        except StoreUnavailable as exc:
            raise Faults((f"{exc.message}; run the command again to continue",)) from exc
    _show(found)
    click.echo(_ENDED[ending].format(source=run.source_name, to=run.target_name))


def _note(rows: Sequence[LeftOutRow], file: Path | None) -> None:
    """Write the rows that are left out to the file. Raises Faults without one."""
    if not rows:
        return
    if file is None:
        named = [f"{one.table}.{one.column}: {one.why}: {_shown(one)}" for one in rows]
        more = len(rows) - _SHOWN_ROWS
        raise Faults(
            (
                f"--to: cannot hold {len(rows):,} rows; correct them, or name a file for them with "
                "--left-out:",
                *named[:_SHOWN_ROWS],
                *((f"and {more:,} more",) if more > 0 else ()),
            )
        )
    try:
        with file.open("xb") as opened:
            opened.writelines(msgspec.json.encode(one) + b"\n" for one in rows)
    except OSError as exc:
        raise Faults((f"--left-out: {file}: {exc.strerror}",)) from exc
    click.echo(f"{len(rows):,} rows are left out; they are in {file}", err=True)


def _shown(one: LeftOutRow) -> str:
    return ascii(msgspec.json.encode(one.row).decode())[1:121]


def _show(found: CopyResult) -> None:
    table = table_of("TABLE", "ROWS", "SHA-256")
    for name, one in sorted(found.tables.items()):
        if one.rows:
            table.add_row(name, f"{one.rows:,}", one.checksum[:_DIGITS])
    show(table)
    for (name, column, why), count in sorted(found.changed.items()):
        click.echo(f"changed: {count:,} values of {name}.{column}, which had {why}", err=True)
    for fault in found.chain_faults:
        click.echo(f"audit log: {fault}, in both databases", err=True)
    state = "verified" if not found.chain_faults else "copied with its faults"
    click.echo(f"audit log: {found.chain_rows:,} rows {state}, head {found.head.hash}")
    click.echo(f"the source admitted no writer for {found.closed_s:.1f} s")
