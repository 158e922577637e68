"""`strowger check`: tell everything that is wrong with a configuration."""

from pathlib import Path

import click

from gateway.commands.configuration import config_option, faults_shown, load
from gateway.upstream.bridge.wrapping import try_tokenizer


@click.command()
@click.argument("named", metavar="[CONFIG]", type=click.Path(path_type=Path), default=None)
@config_option
def check(named: Path | None, path: Path) -> None:
    """Check CONFIG, or --config, without serving it; exits with 1 if it is wrong.

    What can be served and has no effect is a warning.
    """
    path = path if named is None else named
    config = load(path, lambda warning: click.echo(f"warning: {warning}", err=True))
    with faults_shown():
        for provider in config.providers:
            if provider.tokenizer is not None:
                try_tokenizer(Path(provider.tokenizer))
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
