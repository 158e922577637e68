"""The `strowger` command itself: its options, and the commands under it."""

from importlib.metadata import PackageNotFoundError, version

import click

from gateway.commands.chat import chat
from gateway.commands.check import check
from gateway.commands.doctor import doctor
from gateway.commands.experiments import experiments
from gateway.commands.explain import explain
from gateway.commands.models import models
from gateway.commands.routes import routes
from gateway.commands.serve import serve
from gateway.commands.usage import usage

DISTRIBUTION = "strowger-gateway"


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "not installed"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="strowger")
def strowger() -> None:
    """One endpoint for many language models, on this machine and elsewhere."""


for command in (serve, check, routes, explain, chat, experiments, usage, models, doctor):
    strowger.add_command(command)
