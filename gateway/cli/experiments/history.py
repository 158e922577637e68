"""Open the store and look up experiments for the `experiments` commands."""

from collections.abc import Generator
from contextlib import contextmanager

from strowger_gateway.gateway.cli.config_loading import Faults, faults_shown
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import absent, open_existing


@contextmanager
def opened(config: Config) -> Generator[Store, None, None]:
    """Open the configured store. Raises Faults if it is unreachable."""
    with faults_shown():
        store = open_existing(config.store.url)
    try:
        yield store
    except StoreUnavailable as exc:
        raise Faults((f"store.url: {exc.message}",)) from exc
    finally:
        store.close()


def require_store(config: Config) -> None:
    """Raise Faults if the store does not exist yet: a pause in a new file would have no effect."""
    file = absent(config.store.url)
    if file:
        raise Faults(
            (
                f"store.url: {file} does not exist, so no gateway has used this store yet; run "
                "this command where the gateway runs, or use POST /admin/experiments/NAME/pause",
            )
        )


def find_experiment(config: Config, name: str) -> Experiment:
    """Return an experiment of the configuration. Raises Faults if it is unknown."""
    for experiment in config.experiments:
        if experiment.name == name:
            return experiment
    known = nearest(name, [one.name for one in config.experiments])
    raise Faults((f'no experiment of the configuration is named "{name}"{known}',))


def known_name(config: Config, store: Store, name: str) -> str:
    """Return the name if an experiment of the configuration or the store has it.

    Raises Faults if none has.
    """
    names = [one.name for one in config.experiments]
    names += [one.experiment for one in store.runs() if one.experiment not in names]
    if name not in names:
        raise Faults((f'no experiment is named "{name}"{nearest(name, names)}',))
    return name
