"""`strowger requests list` and `show`: what was requested, why it failed, and what it cost."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.http_client import fetch
from strowger_gateway.gateway.cli.requests.options import (
    AskedGateway,
    filter_options,
    gateway_options,
    target,
)
from strowger_gateway.gateway.cli.requests.streams import export, tail
from strowger_gateway.gateway.cli.requests.table import COLUMNS, row_of, usd
from strowger_gateway.gateway.cli.tables import show as show_table
from strowger_gateway.gateway.cli.tables import table_of
from strowger_gateway.gateway.console.admin.request_log.listing import RequestList
from strowger_gateway.gateway.console.admin.request_log.views import RequestView
from strowger_gateway.gateway.storage.sql.request_log.search import Totals

_PAGE: Final = 500
_MOST: Final = 100_000


@click.group()
def requests() -> None:
    """Recorded requests of all gateways: search, look at one, follow, export."""


requests.add_command(tail)
requests.add_command(export)


@requests.command("list")
@gateway_options
@filter_options
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: requests and totals.")
def listed(asked: AskedGateway, limit: int, as_json: bool, **filters: str) -> None:
    """List requests, the newest first, and what they cost together.

    Without --url, the configuration has the gateway's address and its admin key.
    COST is that of all attempts. The times are in UTC.

    \b
    strowger requests list --team search --status failed --since 02:50
    strowger requests list --backend openai/gpt-5 --error upstream_timeout --since 24h
    """
    found = list[RequestView]()
    totals, incomplete, after = None, "", ""
    while True:
        wanted = {
            **filters,
            "limit": str(min(_PAGE, limit - len(found))),
            "after": after,
            "totals": "" if after else "true",
        }
        page = fetch(asked.address, target("/admin/requests", wanted), RequestList, key=asked.key)
        found += page.requests
        totals, incomplete = totals or page.totals, incomplete or page.incomplete
        after = page.next
        if not after or len(found) >= limit:
            break
    if as_json:
        listing = RequestList(requests=found, next=after, totals=totals, incomplete=incomplete)
        click.echo(msgspec.json.format(msgspec.json.encode(listing)))
        return
    if found:
        _table(found)
    else:
        click.echo("No requests match.")
    if incomplete:
        click.echo(f"Only of this gateway: {incomplete}", err=True)
    if totals is not None and totals.requests:
        click.echo(_sums(totals), err=True)
    if after:
        click.echo(f"Only the newest {len(found):,} are shown; give --limit.", err=True)


@requests.command()
@gateway_options
@click.argument("request_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(asked: AskedGateway, request_id: str, as_json: bool) -> None:
    """Show one request: its outcome, its attempts and their reasons, its cost.

    REQUEST_ID is x-gateway-request-id, the id in the answer, or the client's own x-request-id.
    """
    path = f"/admin/requests/{quote(request_id, safe='')}"
    found = fetch(asked.address, path, RequestView, key=asked.key)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
        return
    width = max(len(name) for name, _ in _pairs(found))
    for name, value in _pairs(found):
        click.echo(f"{name:<{width}}  {value}")
    if found.attempts:
        click.echo()
        table = table_of("ATTEMPT", "BACKEND", "OUTCOME", "MS")
        for number, one in enumerate(found.attempts, 1):
            how = f"{one.outcome} (hedge)" if one.hedge else one.outcome
            outcome = f"{how} (not sent)" if one.refused else how
            table.add_row(str(number), escape(one.backend), escape(outcome), f"{one.ms:,.0f}")
        show_table(table)


def _table(found: Sequence[RequestView]) -> None:
    table = table_of(*COLUMNS)
    for one in found:
        table.add_row(*map(escape, row_of(one)))
    show_table(table)


def _sums(totals: Totals) -> str:
    since = "" if totals.since is None else f" since {_time(totals.since)}, the newest of more"
    unpriced = f", {totals.unpriced:,} without a known cost" if totals.unpriced else ""
    return (
        f"{totals.requests:,} requests{since}: {totals.failed:,} failed, of these "
        f"{totals.errors:,} errors; {totals.prompt_tokens:,} tokens in, "
        f"{totals.completion_tokens:,} out; {usd(totals.cost_usd)}{unpriced}"
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _pairs(one: RequestView) -> list[tuple[str, str]]:
    return [(name, value) for name, value in _all_pairs(one) if value]


def _all_pairs(one: RequestView) -> Iterator[tuple[str, str]]:
    yield "request", one.request_id
    yield "client's id", one.client_request_id
    yield "ended", _time(one.time)
    yield "status", f"{one.status} {one.error}".strip()
    yield "why", f"{one.param}: {one.message}" if one.param else one.message or one.refused
    yield "model", one.model if one.route in ("", one.model) else f"{one.model} ({one.route})"
    yield "backend", one.backend
    yield "API", f"{one.surface} {one.task}".strip() + (", streamed" if one.stream else "")
    yield "key", one.key
    yield "team", one.team
    yield "client", one.client
    yield "tags", ", ".join({**dict.fromkeys(one.tags), **dict.fromkeys(one.request_tags)})
    yield "experiment", f"{one.experiment}: {one.variant or 'excluded'}" if one.experiment else ""
    yield "duration", f"{one.ms:,.0f} ms"
    yield "first token", "" if one.ttft_ms is None else f"{one.ttft_ms:,.0f} ms"
    if one.completion_tokens is not None:
        yield "tokens", f"{one.prompt_tokens or 0:,} in, {one.completion_tokens:,} out"
    yield "cost", usd(one.total_cost_usd)
    yield "ruled out", "; ".join(f"{out.backend}: {out.reason}" for out in one.ruled_out)
    yield "payload", one.payload
