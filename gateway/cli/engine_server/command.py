"""`strowger engine`: become the engine process, listening on TCP."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from strowger_gateway.gateway.backends.engines.process.environment import engine_environment
from strowger_gateway.gateway.backends.engines.process.process import engine_settings
from strowger_gateway.gateway.cli.config_loading import faults_shown
from strowger_gateway.gateway.config.engine_file import load_engine
from strowger_gateway.gateway.config.schema.config import Engine, EngineModel, Provider
from strowger_gateway.local_engine.child_process.interpreter import module_command
from strowger_gateway.local_engine.listening.options import tls_paths
from strowger_gateway.local_engine.listening.tcp_listener import Listening, check_listening
from strowger_gateway.local_engine.protocol.address import parse_address
from strowger_gateway.local_engine.protocol.frame_intake import (
    LEAST_REQUEST_BYTES,
    MAX_REQUEST_BYTES,
)
from strowger_gateway.local_engine.protocol.frames import MAX_FRAME_BYTES
from strowger_gateway.schemas.errors import InvalidConfig


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME=PATH",
    help="Serve this model with default settings, in place of FILE; repeatable.",
)
@click.option("--listen", required=True, metavar="HOST:PORT", help="Where gateways connect.")
@click.option("--tls-cert", default="", help="This engine's certificate, PEM.")
@click.option("--tls-key", default="", help="Its key.")
@click.option("--tls-ca", default="", help="The authorities of the gateways' certificates.")
@click.option(
    "--tls-allow",
    multiple=True,
    metavar="NAME",
    help="Admit only certificates with this name; repeatable. Default: any of the authorities'.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="Connections at a time; every worker of a gateway has one.",
)
@click.option(
    "--max-request-bytes",
    type=click.IntRange(LEAST_REQUEST_BYTES, MAX_FRAME_BYTES),
    default=MAX_REQUEST_BYTES,
    show_default=True,
    help="Longest request of a gateway: 1.5 times its server.max_body_bytes.",
)
@click.option(
    "--drain-s",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds for answers to finish after SIGTERM.",
)
def engine(
    file: Path | None,
    models: tuple[str, ...],
    listen: str,
    tls_cert: str,
    tls_key: str,
    tls_ca: str,
    tls_allow: tuple[str, ...],
    max_connections: int,
    max_request_bytes: int,
    drain_s: float,
) -> None:
    """Run an engine on this machine for gateways of other machines, until SIGTERM or Ctrl-C.

    FILE has what `engine:` has in config.yaml: models, device, and so on. An address that other
    machines can reach requires mutual TLS.
    """
    if (file is None) == (not models):
        raise click.UsageError("give FILE, or --model NAME=PATH")
    with faults_shown():
        _check_listening(listen, {"cert": tls_cert, "key": tls_key, "ca": tls_ca}, tls_allow)
        chosen = _of_models(models) if file is None else load_engine(file, os.environ)
    settings = engine_settings(Provider(name="engine", adapter="local", engine=chosen))
    options = ["--listen", listen, "--max-connections", str(max_connections)]
    options += ["--max-request-bytes", str(max_request_bytes), "--drain-s", str(drain_s)]
    for name, value in (("--tls-cert", tls_cert), ("--tls-key", tls_key), ("--tls-ca", tls_ca)):
        options += [name, value] if value else []
    for name in tls_allow:
        options += ["--tls-allow", name]
    config = _as_file(msgspec.json.encode(settings))
    words = [*module_command("strowger_gateway.local_engine"), "--config", config, *options]
    sys.stdout.flush()
    # Its status lines are for a parent process; the log is on stderr.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execve(sys.executable, words, engine_environment(os.environ, settings.environment))


def _check_listening(listen: str, tls: Mapping[str, str], allow: tuple[str, ...]) -> None:
    """Check what the engine would find wrong only after it has imported torch.

    Raises InvalidConfig.
    """
    try:
        address = parse_address(listen)
    except ValueError as exc:
        raise InvalidConfig((f"--listen {exc}",)) from exc
    check_listening(Listening(address=address, tls=tls_paths(tls), allow=allow))


def _of_models(models: tuple[str, ...]) -> Engine:
    found: list[EngineModel] = []
    for text in models:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise click.UsageError(f"--model {text}: write NAME=PATH")
        found.append(EngineModel(name=name, path=path))
    return Engine(models=tuple(found))


def _as_file(content: bytes) -> str:
    """Return the path of a pipe with the content, which the engine inherits."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    # Smaller than a pipe's buffer, so the write does not wait for a reader.
    os.set_blocking(writing, False)
    written = os.write(writing, content)
    os.close(writing)
    if written < len(content):
        raise click.UsageError("the settings of the engine are too long")
    return f"/dev/fd/{reading}"
