"""`strowger records payloads` and `payload`: logged bodies of requests and answers in the store."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from rich.markup import escape

from strowger_gateway.gateway.audit.event import Action, AuditEvent
from strowger_gateway.gateway.cli.config_loading import Faults, config_option, faults_shown, load
from strowger_gateway.gateway.cli.os_user import os_user
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.gateway.storage.sql.payload_rows import PayloadQuery
from strowger_gateway.gateway.storage.sql.sql import SqlStore

_MOST: Final = 10_000


@contextmanager
def _opened(config: Config) -> Generator[SqlStore]:
    store = open_existing(config.store.url)
    try:
        yield store
    except StoreUnavailable as exc:
        raise Faults((str(exc),)) from exc
    finally:
        store.close()


@click.command()
@config_option
@click.option("--key", default="", help="Only of this API key.")
@click.option("--model", default="", help="Only of this model.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True)
def payloads(path: Path, key: str, model: str, limit: int) -> None:
    """List requests whose bodies are in the store, the newest first."""
    config = load(path)
    with faults_shown(), _opened(config) as store:
        found = store.payloads.page(PayloadQuery(key=key, model=model, limit=limit))
    table = table_of("TIME", "REQUEST", "KEY", "MODEL", "STATUS", "BYTES")
    for one in found:
        at = datetime.fromtimestamp(one.time, UTC).isoformat(timespec="seconds")
        shown = (at, one.request_id, one.key, one.model, str(one.status), f"{one.size:,}")
        table.add_row(*map(escape, shown))
    show(table)


@click.command()
@config_option
@click.argument("request_id")
@click.option("--remove", is_flag=True, help="Delete it instead of printing it.")
def payload(path: Path, request_id: str, remove: bool) -> None:
    """Print request and answer of one request as JSON; the audit log records it.

    REQUEST_ID is that of `strowger records payloads`, and of the header x-gateway-request-id.
    """
    config = load(path)
    with faults_shown(), _opened(config) as store:
        found = store.payloads.find(request_id)
        if found is None:
            raise Faults((f"no payload of request {request_id!r} in the store",))
        if remove:
            store.payloads.remove(request_id)
        if config.audit.log == "on":
            action: Action = "payload.remove" if remove else "payload.read"
            facts = {"key": found.key} if found.key else {}
            event = AuditEvent.by(os_user(), action, target=request_id, facts=facts)
            store.audit.append([event])
    if not remove:
        click.echo(found.record)
