"""`strowger check`: tell everything that is wrong with a configuration."""

import asyncio
import tempfile
from pathlib import Path

import click

from gateway.commands.configuration import Faults, config_option, faults_shown, load
from gateway.config.model import Config


@click.command()
@click.argument("named", metavar="[CONFIG]", type=click.Path(path_type=Path), default=None)
@config_option
def check(named: Path | None, path: Path) -> None:
    """Check CONFIG, or --config, without serving it; exits with 1 if it is wrong.

    What can be served and has no effect is a warning.
    """
    path = path if named is None else named
    config = load(path, lambda warning: click.echo(f"warning: {warning}", err=True))
    build(config)
    counted = ", ".join(
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in (
            (len(config.providers), "provider"),
            (len(config.models), "model"),
            (len(config.auth.keys), "key"),
            (len(config.experiments), "experiment"),
        )
        if count or noun in ("provider", "model")
    )
    click.echo(f"{path}: OK ({counted})")


def build(config: Config) -> None:
    """Build what `serve` builds, and throw it away: nothing is connected, started or made on disk.

    Raises Faults for what only shows then: an address that an adapter refuses, a file that cannot
    be read, an extra that is missing, a host that is not this machine's, a newer program's tables.
    The port is left alone: the gateway that runs may have it.
    """
    # Late, because a configuration that is wrong in itself needs none of it.
    from gateway.listening import listen
    from gateway.replicas.joining import link_of
    from gateway.runtime import Runtime
    from gateway.store.newer import refuse_newer
    from gateway.store.opening import open_store

    with tempfile.TemporaryDirectory(prefix="strowger-") as folder, faults_shown():
        try:
            runtime = Runtime(config, run_dir=Path(folder))
        except ValueError as exc:
            raise Faults((str(exc),)) from exc
        asyncio.run(runtime.close())
        open_store(config.store.url).close()
        refuse_newer(config.store.url)
        link_of(config)
        listen(config.server.host, 0).close()
