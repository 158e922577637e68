"""`strowger health`: report whether a running gateway is ready, for containers' health checks.

It is started every few seconds, so it imports little: neither our HTTP client nor, with --url, what
reads a configuration.
"""

import http.client
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from strowger_gateway.gateway.cli.address import Address, address_of, url_option
from strowger_gateway.gateway.cli.config_loading import Faults, config_option, faults_shown, load
from strowger_gateway.gateway.config.schema.connection import Tls

LARGEST = 64 * 1024
"""Bytes of an answer that are read."""


class _Readiness(msgspec.Struct):
    """`GET /readyz`. engines: states of local engines by name.

    configuration: empty, or that the gateway rejected the file and keeps serving the last one.
    discovery: what is wrong, by source of replicas. records: empty, or why they are not imported.
    config_hash: of the configuration in force, without secrets.
    """

    status: str
    engines: dict[str, str] = {}
    configuration: str = ""
    config_hash: str = ""
    discovery: dict[str, str] = {}
    records: str = ""


@click.command()
@url_option("Address of the gateway; default: where one with this configuration listens.")
@config_option
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, 86_400, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds to wait for an answer.",
)
def health(address: Address | None, tls: Tls, path: Path, timeout_s: float) -> None:
    """Report in one line whether a running gateway is ready. Exit status 0: ready, 1: not."""
    if address is None:
        address = address_of(load(path), tls)
    status, body = _get(address, timeout_s)
    try:
        found = msgspec.json.decode(body, type=_Readiness)
    except msgspec.DecodeError as exc:
        message = f"{address}/readyz: status {status}, and the answer is not a gateway's"
        raise Faults((message,)) from exc
    if status != 200:
        raise Faults((f"{address}: not ready: {_words(found)}",))
    click.echo(f"{address}: {_words(found)}")


def _get(address: Address, timeout_s: float) -> tuple[int, bytes]:
    """Return status and body of `GET /readyz`. Raises Faults if there is no answer."""
    connection = _connection(address, timeout_s)
    try:
        connection.request("GET", f"{urlsplit(address.url).path}/readyz")
        answer = connection.getresponse()
        return answer.status, answer.read(LARGEST)
    except TimeoutError as exc:
        raise Faults((f"{address}: no answer within {timeout_s:g} s",)) from exc
    except ssl.SSLError as exc:
        raise Faults((f"{address}: TLS: {exc}; give --ca-file, or --client-cert",)) from exc
    except OSError as exc:
        raise Faults((f"{address}: cannot connect: {exc.strerror or exc}",)) from exc
    except http.client.HTTPException as exc:
        raise Faults((f"{address}: the answer is not HTTP: {exc!r}",)) from exc
    finally:
        connection.close()


def _connection(address: Address, timeout_s: float) -> http.client.HTTPConnection:
    """Raises click.UsageError for an invalid URL, Faults for files that cannot be used."""
    try:
        parts = urlsplit(address.url)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise click.UsageError(f"--url: {exc}") from exc
    if parts.scheme not in ("http", "https") or not host:
        raise click.UsageError("--url: must start with http:// or https://, and name a host")
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    with faults_shown():
        context = address.contexts.http1(address.tls, upstream="gateway")
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)


def _words(found: _Readiness) -> str:
    details = [f"engine {name}: {state}" for name, state in found.engines.items()]
    details += [f"configuration: {found.configuration}"] if found.configuration else []
    details += [f"discovery {source}: {problem}" for source, problem in found.discovery.items()]
    details += [f"records: {found.records}"] if found.records else []
    details += [f"configuration hash {found.config_hash}"] if found.config_hash else []
    return f"{found.status} ({', '.join(details)})" if details else found.status
