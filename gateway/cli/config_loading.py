"""Load config.yaml for the commands, and show its faults."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

import click
import msgspec

from strowger_gateway.gateway.cli.part_commands import checked_parts
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.schemas.errors import InvalidConfig

if TYPE_CHECKING:
    from strowger_gateway.gateway.config.problems import Problems

DEFAULT = Path("config.yaml")

F = TypeVar("F", bound=Callable[..., object])


class Faults(click.ClickException):
    """Faults, printed to stderr one per line; the exit status is 1."""

    exit_code = 1

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))

    def show(self, file: IO[str] | None = None) -> None:
        click.echo(self.message, file=file, err=True)


@contextmanager
def faults_shown() -> Generator[None, None, None]:
    """Show InvalidConfig as lines on stderr instead of a traceback."""
    try:
        yield
    except InvalidConfig as exc:
        raise Faults(exc.problems) from exc


def load(
    path: Path,
    warn: Callable[[str], None] | None = None,
    trial: "Callable[[Config, Problems], None] | None" = None,
) -> Config:
    """Load a configuration. Raises Faults. warn, trial: as for `load_config`; `None`: neither."""
    # Late: this imports every adapter, which `health` with a URL does not need.
    from strowger_gateway.gateway.config.load import ignore_warning, load_config, not_tried

    with faults_shown():
        return load_config(
            path,
            os.environ,
            warn or ignore_warning,
            parts=checked_parts(),
            trial=trial or not_tried,
        )


def config_option(command: F) -> F:
    """`--config FILE`."""
    return click.option(
        "--config",
        "path",
        type=click.Path(path_type=Path),
        default=DEFAULT,
        envvar="STROWGER_CONFIG",
        show_default=True,
        show_envvar=True,
        help="The configuration file.",
    )(command)


def with_listen_overrides(
    config: Config, host: str | None, port: int | None, workers: int | None = None
) -> Config:
    """Return the configuration with host, port and number of workers replaced, if given."""
    server = msgspec.structs.replace(
        config.server,
        host=host or config.server.host,
        port=config.server.port if port is None else port,
        workers=workers or config.server.workers,
    )
    return msgspec.structs.replace(config, server=server)
