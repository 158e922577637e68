"""`strowger audit`: show the audit log, and check that no row was changed or removed."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click
from rich.markup import escape

from strowger_gateway.gateway.audit.chain import AuditRow, ChainHead, detail_of, line_of, timestamp
from strowger_gateway.gateway.audit.file_check import FileCheck
from strowger_gateway.gateway.audit.verification import ChainCheck
from strowger_gateway.gateway.cli.config_loading import Faults, config_option, faults_shown, load
from strowger_gateway.gateway.cli.durations import DURATION, duration
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.storage.sql.audit_rows import AuditQuery, AuditRows
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing

_HASH_DIGITS: Final = 64
_SHOWN_CHANGES: Final = 5


def _since(text: str) -> str:
    """Parse an RFC 3339 time, or a duration back from now. Raises click.BadParameter."""
    if DURATION.fullmatch(text):
        return timestamp((datetime.now(UTC) - timedelta(seconds=duration(text))).timestamp())
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as exc:
        raise click.BadParameter(
            f"{text!r} is not a time; write 7d or 2027-01-31T00:00:00Z"
        ) from exc
    return timestamp((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp())


def _head(text: str) -> str:
    """Raises click.BadParameter."""
    found = text.strip().lower()
    if len(found) != _HASH_DIGITS or found.strip("0123456789abcdef"):
        raise click.BadParameter(f"expected the {_HASH_DIGITS} hexadecimal digits of a row's hash")
    return found


@click.command()
@click.option("--since", type=_since, metavar="TIME", help="Rows from then on: 7d, UTC.")
@click.option("--actor", default="", help="Name of an actor, or a kind such as cli.")
@click.option("--action", default="", help="An action, or a group such as key.")
@click.option("--target", default="", help="What was changed, such as the name of a key.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line per row.")
@click.option("--verify", is_flag=True, help="Check every row instead of showing any.")
@click.option("--head", type=_head, metavar="HASH", help="A hash that must be there.")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A copy, audit.file, to compare with; repeatable, the oldest first.",
)
@config_option
def audit(
    path: Path,
    since: str | None,
    actor: str,
    action: str,
    target: str,
    limit: int,
    *,
    as_json: bool,
    verify: bool,
    head: str | None,
    files: tuple[Path, ...],
) -> None:
    """Show who changed what, the latest last; --verify checks that the log is complete.

    --verify finds every row that was changed, removed, inserted or moved. Only a hash that you
    noted elsewhere (--head) or a copy (--file) shows that the whole chain was replaced, or that its
    end was cut off and its head changed.
    """
    config = load(path)
    if (head or files) and not verify:
        raise click.UsageError("--head and --file belong to --verify")
    if verify:
        _verify(config, head or "", files)
        return
    query = AuditQuery(since=since or "", actor=actor, action=action, target=target, limit=limit)
    with _opened(config) as rows:
        found = list(reversed(rows.page(query)))
    if as_json:
        for row in found:
            click.echo(line_of(row))
        return
    _show(found)


def _verify(config: Config, expected: str, files: tuple[Path, ...]) -> None:
    """Print what the chain leads to. Raises Faults with every fault found."""
    check, copies = ChainCheck(expected), FileCheck(files)
    with _opened(config) as rows:
        for row in rows.chain():
            if isinstance(row, ChainHead):
                check.finish(row)
            else:
                check.add(row)
                copies.compare(row)
    copies.finish(check.last)
    problems = sorted((*check.problems, *copies.problems), key=lambda one: one.seq)
    if problems:
        more = check.more + copies.more
        counted = (f"and {more} more problems",) if more else ()
        raise Faults((*(one.problem for one in problems), *counted))
    first = check.last.seq if check.first is None else check.first.seq
    click.echo(f"{check.rows:,} rows, {first} to {check.last.seq}: none was changed or removed")
    if files:
        click.echo(f"{copies.rows:,} rows of the copy are the same")
    click.echo(f"the last row has the hash {check.last.hash}")


@contextmanager
def _opened(config: Config) -> Generator[AuditRows]:
    with faults_shown():
        store = open_existing(config.store.url)
    try:
        yield store.audit
    except StoreUnavailable as exc:
        raise Faults((f"store.url: {exc.message}",)) from exc
    finally:
        store.close()


def _show(rows: Sequence[AuditRow]) -> None:
    table = table_of("ROW", "TIME", "WHO", "FROM", "ACTION", "TARGET", "OUTCOME", "DETAILS")
    for row in rows:
        times = f" ×{row.count}" if row.count > 1 else ""
        who = f"{row.actor_kind} {row.actor}".strip()
        at = f"{row.time[:10]} {row.time[11:19]} UTC"
        cells = (at, who, row.address, row.action, row.target, f"{row.outcome}{times}")
        table.add_row(str(row.seq), *map(escape, (*cells, _details(row))))
    show(table)


def _details(row: AuditRow) -> str:
    """Return what changed and why, in a few words; --json has everything."""
    detail = detail_of(row)
    changes = [f"{one.field}: {_value(one.old)} → {_value(one.new)}" for one in detail.changes]
    if len(changes) > _SHOWN_CHANGES:
        changes = [*changes[:_SHOWN_CHANGES], f"and {len(changes) - _SHOWN_CHANGES} more"]
    return "; ".join([*([row.reason] if row.reason else []), *changes])


def _value(text: str | None) -> str:
    return "-" if text is None else text
