"""`strowger check`: tell everything that is wrong with a configuration."""

from pathlib import Path

import click

from gateway.commands.configuration import DEFAULT, load


@click.command()
@click.argument(
    "path",
    metavar="[CONFIG]",
    type=click.Path(path_type=Path),
    default=DEFAULT,
    envvar="STROWGER_CONFIG",
)
def check(path: Path) -> None:
    """Check CONFIG (config.yaml if absent) without serving it; exits with 1 if it is wrong."""
    config = load(path)
    counted = ", ".join(
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in (
            (len(config.providers), "provider"),
            (len(config.models), "model"),
            (len(config.auth.keys), "key"),
        )
        if count or noun != "key"
    )
    click.echo(f"{path}: OK ({counted})")
