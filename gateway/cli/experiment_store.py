"""The configured store and experiments, as the commands about them get at them."""

from collections.abc import Generator
from contextlib import contextmanager

from gateway.cli.config_loading import Faults, faults_shown
from gateway.config.problems import nearest
from gateway.config.schema import Config
from gateway.config.schema_experiment import Experiment
from gateway.store.base import Store
from gateway.store.errors import StoreUnavailable
from gateway.store.open import absent, open_existing


@contextmanager
def opened(config: Config) -> Generator[Store, None, None]:
    """The configured store, and why it cannot be asked as a line on stderr."""
    with faults_shown():
        store = open_existing(config.store.url)
    try:
        yield store
    except StoreUnavailable as exc:
        raise Faults((f"store.url: {exc.message}",)) from exc
    finally:
        store.close()


def begun(config: Config) -> None:
    """A pause in a file that no gateway has would pause nothing."""
    file = absent(config.store.url)
    if file:
        raise Faults(
            (
                f"store.url: there is no {file}, so no gateway has served with this store yet; "
                "say it where the gateway runs, or by POST /admin/experiments/NAME/pause",
            )
        )


def named(config: Config, name: str) -> Experiment:
    """An experiment of the configuration. Raises Faults."""
    for experiment in config.experiments:
        if experiment.name == name:
            return experiment
    known = nearest(name, [one.name for one in config.experiments])
    raise Faults((f'no experiment of the configuration is named "{name}"{known}',))
