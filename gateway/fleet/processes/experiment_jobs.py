"""Create the leader's background jobs for experiments from the configuration."""

from collections.abc import Awaitable, Callable

from strowger_gateway.gateway.audit.log import AuditLog
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.experiments.background_jobs import ExperimentJobs
from strowger_gateway.gateway.platform.background import OnCrash
from strowger_gateway.gateway.storage.sql.base import Store


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
