"""What a configuration has the process that leads do about experiments."""

from collections.abc import Callable

from gateway.background import OnCrash
from gateway.config.schema import Config
from gateway.experiments.service.background_jobs import ExperimentJobs
from gateway.store.base import Store


def experiment_jobs_for(
    store: Store, config: Callable[[], Config], crashed: OnCrash
) -> ExperimentJobs:
    """config: what is in force. A history is for whoever has the key to the page."""
    return ExperimentJobs(
        store,
        lambda: config().experiments,
        shown=lambda: bool(config().auth.admin_key),
        crashed=crashed,
    )
