"""`strowger serve`: run the gateway until it is stopped."""

import os
from collections.abc import Callable
from pathlib import Path

import click

from gateway.cli.config_loading import config_option, faults_shown, with_listen_overrides
from gateway.config.load import load_config, recheck
from gateway.config.schema.config import Config
from gateway.price_catalogue.lookup import with_catalogue


@click.command()
@config_option
@click.option("--host", help="Override server.host.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Override server.port (0 = any free port)."
)
@click.option("--workers", type=click.IntRange(1), help="Override server.workers.")
def serve(path: Path, host: str | None, port: int | None, workers: int | None) -> None:
    """Run the gateway until SIGTERM or Ctrl-C, or until its terminal is closed.

    SIGHUP reloads the configuration.
    """

    def read(warn: Callable[[str], None]) -> Config:
        """Raises InvalidConfig."""
        config = with_listen_overrides(load_config(path, os.environ, warn), host, port, workers)
        recheck(config, source=str(path))
        return with_catalogue(config, source=str(path))

    with faults_shown():
        warnings: list[str] = []
        config = read(warnings.append)
        from gateway.processes.main import serve as run

        run(config, path, read, warnings)
