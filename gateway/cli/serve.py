"""`strowger serve`: run the gateway until it is stopped."""

import os
from collections.abc import Callable
from pathlib import Path

import click

from strowger_gateway.gateway.cli.config_loading import (
    Faults,
    config_option,
    faults_shown,
    with_listen_overrides,
)
from strowger_gateway.gateway.cli.part_commands import checked_parts
from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.fleet.listening.predecessor import Predecessor
from strowger_gateway.gateway.fleet.listening.systemd import SYSTEMD, activated, widest_address
from strowger_gateway.gateway.fleet.processes.signals import ignore_hand_over
from strowger_gateway.schemas.errors import InvalidConfig


@click.command()
@config_option
@click.option("--host", help="Override server.host.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Override server.port (0 = any free port)."
)
@click.option("--workers", type=click.IntRange(1), help="Override server.workers.")
def serve(path: Path, host: str | None, port: int | None, workers: int | None) -> None:
    """Run the gateway until SIGTERM or Ctrl-C, or until its terminal is closed.

    SIGHUP reloads the configuration. SIGUSR2 starts a new gateway, which takes over the listening
    socket; this one then ends with its last request.
    """
    ignore_hand_over()
    predecessor, given = Predecessor.of(), None

    def read(warn: Callable[[str], None]) -> Config:
        """Raises InvalidConfig."""
        listen = (host, port) if given is None else (widest_address(given) or (host, port))

        def override(config: Config) -> Config:
            return with_listen_overrides(config, *listen, workers)

        return load_config(path, os.environ, warn, override, parts=checked_parts())

    with faults_shown():
        given = activated()
        if predecessor is not None and predecessor.listener.kept:
            given = predecessor.take(SYSTEMD)
        warnings: list[str] = []
        config = read(warnings.append)
        if given is not None and (host is not None or port is not None):
            warnings.append("--host and --port have no effect: systemd has bound the sockets")
        from strowger_gateway.gateway.fleet.processes.main import serve as run

        try:
            run(config, path, read, warnings, given, predecessor)
        except InvalidConfig as exc:
            from strowger_gateway.gateway.cli.checking.report import located

            raise Faults(tuple(located(one, config) for one in exc.problems)) from exc
