"""`strowger explain`: show where a request would be routed, without sending it."""

import asyncio
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.cli.address import Address, url_option
from strowger_gateway.gateway.cli.config_loading import Faults, config_option, faults_shown, load
from strowger_gateway.gateway.cli.explaining.output import print_explanation
from strowger_gateway.gateway.cli.http_client import admin_key_option, fetch
from strowger_gateway.gateway.config.own_rules import configured_budgets, configured_limits
from strowger_gateway.gateway.config.schema.config import Config, Tls
from strowger_gateway.gateway.console.explain.experiment_view import assume_running
from strowger_gateway.gateway.console.explain.explanation import Explanation
from strowger_gateway.gateway.console.explain.held_to import held_to, with_limits
from strowger_gateway.gateway.console.explain.query import Explained, Query, explain_query
from strowger_gateway.gateway.governance.end_users.end_users import EndUserFinder
from strowger_gateway.gateway.governance.reservations.part import costs_of
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.surfaces.routes import SURFACES
from strowger_gateway.schemas.errors import GatewayError


@click.command()
@click.argument("request", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--surface",
    default="",
    help=f"Endpoint: a path, or one of {', '.join(SURFACES)}. Default: detect from the body.",
)
@click.option("--model", default="", help="Model, for endpoints whose path contains it.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME:VALUE", help="Request header. Repeatable."
)
@click.option(
    "--key", default="", metavar="NAME", help="Name of the client key (auth.keys[].name)."
)
@click.option(
    "--claims",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="JSON object of a token's claims, in place of --key (auth.jwt[]).",
)
@click.option(
    "--down",
    multiple=True,
    metavar="BACKEND",
    help="Assume that this PROVIDER/MODEL, or all of a PROVIDER, is down. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@url_option("Use a running gateway, with its current breaker states and loads.")
@admin_key_option
@config_option
def explain(
    address: Address | None,
    _: Tls,
    request: Path,
    surface: str,
    model: str,
    headers: tuple[str, ...],
    key: str,
    claims: Path | None,
    down: tuple[str, ...],
    as_json: bool,
    admin_key: str,
    path: Path,
) -> None:
    """Show where the request in the file REQUEST (- for stdin) would be routed, and why.

    Nothing is sent, and no engine is started. The exit status is 1 if the gateway would reject it.
    """
    question = Query(
        body=sys.stdin.buffer.read() if str(request) == "-" else _read(request),
        path=surface,
        model=model,
        key=key,
        claims=None if claims is None else _read(claims),
        headers=tuple(_header(line) for line in headers),
        down=down,
    )
    if address is None:
        found = _from_configuration(question, load(path))
    else:
        found = _from_gateway(question, address, admin_key)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    else:
        print_explanation(found)
    if found.refused is not None:
        sys.exit(1)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as exc:
        raise Faults((f"{file}: cannot read: {exc.strerror}",)) from exc


def _header(line: str) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise click.UsageError(f"--header: {line!r} is not NAME:VALUE")
    return name.strip().lower().encode("latin-1", "replace"), value.strip().encode(
        "latin-1", "replace"
    )


def _from_configuration(question: Query, config: Config) -> Explanation:
    with tempfile.TemporaryDirectory() as folder, faults_shown():
        runtime = Runtime(config, run_dir=Path(folder))
        assume_running(runtime)
        try:
            return _with_limits(explain_query(question, runtime, now()), question, runtime)
        except GatewayError as exc:
            raise Faults((f"{exc.status}: {exc.message}",)) from exc
        finally:
            asyncio.run(runtime.close())


def _with_limits(seen: Explained, question: Query, runtime: Runtime) -> Explanation:
    """Add the limits and budgets of the configuration; what is used of them is not known."""
    config, headers = runtime.config, dict(question.headers)
    limits, budgets = configured_limits(config), configured_budgets(config)
    finder = EndUserFinder()
    finder.configure(config.end_users, limits, budgets)
    held = held_to(
        seen,
        limits,
        budgets,
        costs_of(runtime.prepared),
        lambda place: finder.would_find(place, seen.parsed.request, headers),
    )
    return with_limits(seen.explanation, held, None, None)


def _from_gateway(question: Query, address: Address, admin_key: str) -> Explanation:
    parameters = [("path", question.path), ("model", question.model), ("key", question.key)]
    parameters += [("down", name) for name in question.down]
    given = [(name, value) for name, value in parameters if value]
    if question.claims is not None:
        given.append(("claims", question.claims.decode(errors="replace")))
    query = urlencode(given)
    headers = [
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in question.headers
    ]
    target = f"/admin/explain?{query}" if query else "/admin/explain"
    return fetch(address, target, Explanation, key=admin_key, body=question.body, headers=headers)
