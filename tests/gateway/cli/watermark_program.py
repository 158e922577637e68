"""What the commands of `watermark_commands` do; imported when one is called."""

from pathlib import Path

import click

from strowger_gateway.gateway.cli.config_loading import config_option, load


@click.command()
@click.argument("text")
@config_option
def sign(text: str, path: Path) -> None:
    """Sign the text TEXT as an answer would be signed. Prints it.

    By the configuration.
    """
    click.echo(f"{text} (of {len(load(path).models)} models)")


@click.group()
def fonts() -> None:
    """Fonts for watermarks."""


@fonts.command("list")
@click.option("--wide", is_flag=True)
def listed(wide: bool) -> None:
    """List them."""
    click.echo("wide.ttf" if wide else "plain.ttf\nwide.ttf")
