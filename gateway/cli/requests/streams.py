"""`strowger requests tail` and `export`: what arrives in pieces is printed in pieces."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Final

import click
import msgspec

from strowger_gateway.adapters.framing import SSEParser
from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.gateway.cli.http_client import (
    CONNECT_S,
    RESPONSE_S,
    Headers,
    Site,
    error_text,
    upstream_faults,
)
from strowger_gateway.gateway.cli.requests.options import (
    AskedGateway,
    filter_options,
    gateway_options,
    target,
)
from strowger_gateway.gateway.cli.requests.table import row_of
from strowger_gateway.gateway.console.admin.request_log.views import RequestView

_SILENCE_S: Final = 60.0
"""The gateway sends a comment after ten seconds of silence."""

_LARGEST_ERROR: Final = 64 * 1024
_AGAIN_S, _TRIES = 1.0, 60
"""A gateway that restarts is back by then."""

_view = msgspec.json.Decoder(RequestView)
_text = msgspec.json.Decoder(str)


@click.command()
@gateway_options
@filter_options
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON per request.")
def tail(asked: AskedGateway, as_json: bool, **filters: str) -> None:
    """Print requests of all gateways as they are recorded, until Ctrl-C.

    A line has the time, the id, status and error, model, backends, key, duration, cost and reason.

    \b
    strowger requests tail --status failed --team search
    """
    path = target("/admin/requests/tail", filters)
    with _interrupted():
        asyncio.run(_follow(asked, path, as_json=as_json))


@click.command()
@gateway_options
@filter_options
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl")
@click.option("--limit", type=click.IntRange(1), help="Only the newest; default: all.")
def export(asked: AskedGateway, form: str, limit: int | None, **filters: str) -> None:
    """Write all requests in the store that match to standard output, the newest first.

    \b
    strowger requests export --team search --since 7d --format csv > search.csv
    """
    more = {"format": form, "limit": "" if limit is None else str(limit)}
    path = target("/admin/requests/export", {**filters, **more})
    with _interrupted():
        asyncio.run(_copy(asked, path))


async def _copy(asked: AskedGateway, path: str) -> None:
    async for data in _pieces(asked, path):
        sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


async def _follow(asked: AskedGateway, path: str, *, as_json: bool) -> None:
    """Print what comes, and connect again where the last stream ended. Raises Faults."""
    last, failures, followed = "", 0, False
    while True:
        parser, headers = SSEParser("gateway"), [("last-event-id", last)] if last else []
        last = ""
        try:
            async for data in _pieces(asked, path, headers):
                failures, followed = 0, True
                for name, body in parser.feed(data):
                    last = body.decode() if name == "end" else ""
                    _print(name, body, as_json=as_json)
        except Faults as exc:
            failures += 1
            if not followed or failures > _TRIES:
                raise
            click.echo(f"{exc.message}; trying again", err=True)
        await asyncio.sleep(_AGAIN_S)


def _print(name: str, body: bytes, *, as_json: bool) -> None:
    match name:
        case "request" if as_json:
            click.echo(body)
        case "request":
            click.echo("  ".join(one for one in row_of(_view.decode(body)) if one))
        case "lost":
            click.echo("some requests are missing: there were too many to print", err=True)
        case "away":
            click.echo(f"the store is away: {_text.decode(body)}", err=True)
        case _:
            pass


async def _pieces(asked: AskedGateway, path: str, headers: Headers = ()) -> AsyncGenerator[bytes]:
    """Yield an answer as it arrives. Raises Faults."""
    site = Site(asked.address)
    clock = asyncio.get_running_loop().time
    outbound = site.outbound(path, key=asked.key, headers=headers, stream=True)
    try:
        with upstream_faults(site.url):
            reply = await site.transport.exchange(
                outbound, connect_by=clock() + CONNECT_S, head_by=clock() + RESPONSE_S
            )
            try:
                if reply.status != 200:
                    data = await reply.body(clock() + RESPONSE_S, _LARGEST_ERROR)
                    remedy = "; give --admin-key" if reply.status == 401 else ""
                    raise Faults((f"{site.url}: {error_text(reply.status, data)}{remedy}",))
                while data := await reply.chunk(clock() + _SILENCE_S):
                    yield data
            finally:
                await reply.aclose()
    finally:
        await site.transport.aclose()


@contextmanager
def _interrupted() -> Generator[None]:
    """End quietly at Ctrl-C: it is how a stream is left."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(130) from None
