"""`strowger courtesy`: judge a text."""

import click

from tests.gateway.parts.courtesy.stages import is_rude


@click.command()
@click.argument("text")
@click.option("--word", multiple=True, help="A word that is rude.")
def courtesy(text: str, word: tuple[str, ...]) -> None:
    """Judge the text TEXT."""
    click.echo("rude" if is_rude(text, word) else "calm")
