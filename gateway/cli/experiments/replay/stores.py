"""Where runs are kept: in the configured store, or in a SQLite file of their own."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click

from strowger_gateway.gateway.cli.config_loading import Faults, faults_shown
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema_store import SQLITE
from strowger_gateway.gateway.experiments.replay.rows import ReplayRows, ReplayRun
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing, open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret

F = TypeVar("F", bound=Callable[..., object])


def into_option(command: F) -> F:
    """`--into FILE`."""
    return click.option(
        "--into",
        type=click.Path(path_type=Path, dir_okay=False),
        help="SQLite file for runs. Default: the configured store.",
    )(command)


@contextmanager
def replay_store(config: Config, into: Path | None, *, create: bool = False) -> Generator[SqlStore]:
    """Open the store of runs. create: also if its SQLite file is missing. Raises Faults."""
    url = config.store.url if into is None else Secret(f"{SQLITE}{into}")
    with faults_shown():
        store = open_store(url) if create else open_existing(url)
    try:
        yield store
    except StoreUnavailable as exc:
        where = "store.url" if into is None else "--into"
        raise Faults((f"{where}: {exc.message}",)) from exc
    finally:
        store.close()


def find_run(rows: ReplayRows, name: str) -> ReplayRun:
    """Raises Faults if there is no such run."""
    run = rows.run(name)
    if run is None:
        hint = nearest(name, [one.name for one in rows.runs()])
        raise Faults((f"no run is named {name!r}{hint}",))
    return run
