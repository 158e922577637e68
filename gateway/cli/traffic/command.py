"""`strowger traffic`: how many requests, how many failed, and how long they took."""

import time
from pathlib import Path
from typing import get_args

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.config_loading import config_option, faults_shown, load
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.console.admin.page.formatting import ms
from strowger_gateway.gateway.console.admin.traffic.reader import TrafficRead
from strowger_gateway.gateway.console.admin.traffic.series import series_view
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.gateway.storage.sql.traffic.counting import QuantileSketch, TrafficCell
from strowger_gateway.gateway.storage.sql.traffic.queries import TrafficFilter, TrafficRows
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries, total
from strowger_gateway.gateway.storage.sql.traffic.windows import Window
from strowger_gateway.schemas.errors import InvalidConfig


@click.command()
@config_option
@click.option(
    "--window",
    type=click.Choice(get_args(Window)),
    default="1h",
    show_default=True,
    help="How far back.",
)
@click.option("--model", metavar="NAME", help="Only this model, as configured.")
@click.option("--backend", metavar="PROVIDER/MODEL", help="Only this backend.")
@click.option("--key", metavar="NAME", help="Only requests of this key.")
@click.option("--team", metavar="NAME", help="Only requests of keys of this team.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the course over time.")
def traffic(
    path: Path,
    window: Window,
    model: str | None,
    backend: str | None,
    key: str | None,
    team: str | None,
    as_json: bool,
) -> None:
    """Show requests, failures and durations of all gateways that share the store.

    ERRORS are failures of backends, CLIENT what clients sent wrongly, REFUSED what limits, budgets
    and other own rules refused. Durations are of answered requests.

    \b
    strowger traffic --window 24h --team search
    """
    at = time.time()
    found = _read(path, window, at, TrafficFilter(model, backend, key, team))
    if as_json:
        read = TrafficRead(by_backend=found, source="all_gateways")
        click.echo(msgspec.json.encode(series_view(read, window, at)))
        return
    columns = ("REQUESTS", "ERRORS", "CLIENT", "REFUSED", "ATTEMPTS", "FAILED")
    table = table_of("MODEL", "BACKEND", *columns, "FIRST TOKEN P50", "P50", "P95", "P99")
    for one in found:
        cell = total(one.cells)
        if cell.requests or cell.attempts:
            table.add_row(escape(one.model or "–"), escape(one.backend or "–"), *_figures(cell))
    if len(found) > 1:
        everything = total(cell for one in found for cell in one.cells)
        table.add_row("TOTAL", "", *_figures(everything))
    if not table.rows:
        click.echo(f"No requests in the last {window}.", err=True)
        return
    show(table)


def _read(path: Path, window: Window, at: float, only: TrafficFilter) -> tuple[BackendSeries, ...]:
    with faults_shown():
        store = open_existing(load(path).store.url)
        try:
            return TrafficRows(store.database).series(window, at, only)
        except StoreUnavailable as exc:
            raise InvalidConfig((f"store.url: {exc}",)) from exc
        finally:
            store.close()


def _figures(cell: TrafficCell) -> tuple[str, ...]:
    counts = (cell.requests, cell.errors, cell.client_errors, cell.refused)
    first, whole = QuantileSketch(cell.ttft), QuantileSketch(cell.latency)
    return (
        *(f"{count:,}" for count in (*counts, cell.attempts, cell.failed)),
        ms(first.quantile(0.5)),
        *(ms(whole.quantile(share)) for share in (0.5, 0.95, 0.99)),
    )
