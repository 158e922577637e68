"""`strowger serve`: run the gateway until it is told to stop."""

from pathlib import Path

import click

from gateway.commands.configuration import config_option, faults_shown, listening_on, load
from gateway.config.load import recheck


@click.command()
@config_option
@click.option("--host", help="Listen here instead of at server.host.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Listen here instead of at server.port; 0: any."
)
def serve(path: Path, host: str | None, port: int | None) -> None:
    """Run the gateway until SIGTERM or Ctrl-C."""
    config = listening_on(load(path), host, port)
    with faults_shown():
        recheck(config, source=str(path))
        from gateway.supervisor import serve as run

        run(config, str(path))
