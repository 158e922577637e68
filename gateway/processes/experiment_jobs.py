"""Create the leader's background jobs for experiments from the configuration."""

from collections.abc import Awaitable, Callable

from gateway.audit.log import AuditLog
from gateway.background import OnCrash
from gateway.config.schema.config import Config
from gateway.experiments.service.background_jobs import ExperimentJobs
from gateway.store.base import Store


def experiment_jobs_for(
    store: Store,
    config: Callable[[], Config],
    audit: AuditLog,
    crashed: OnCrash,
    freed: Callable[[], Awaitable[None]] | None = None,
) -> ExperimentJobs:
    """Create the jobs. A history is only kept if /admin exists, so that it can be shown.

    config: returns the current configuration. freed: see ExperimentJobs.
    """
    return ExperimentJobs(
        store,
        lambda: config().experiments,
        shown=lambda: config().auth.admin,
        audit=audit,
        crashed=crashed,
        freed=freed,
    )
