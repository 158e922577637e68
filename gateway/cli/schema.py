"""`strowger schema`: print the JSON Schema of config.yaml, for editors."""

import json

import click

from strowger_gateway.gateway.cli.part_commands import checked_parts
from strowger_gateway.gateway.config.json_schema.document import config_schema


@click.command()
def schema() -> None:
    """Print the JSON Schema of config.yaml, with which editors complete and check it.

    In Visual Studio Code (YAML extension), Neovim, Emacs and other editors that use
    yaml-language-server, save it as config.schema.json next to the file, whose first line is then:

      # yaml-language-server: $schema=config.schema.json
    """
    click.echo(json.dumps(config_schema(checked_parts()), indent=1, ensure_ascii=False))
