"""The parts of a leader, for tests that run its workers themselves."""

from collections.abc import Callable
from pathlib import Path

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts, LeaderState
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.audit.log import NoAudit
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from strowger_gateway.gateway.storage.sql.open import open_store


def leading(
    first: Config, config: Callable[[], Config], metrics: ProcessMetrics, run_dir: Path
) -> LeaderParts:
    """config: returns the one in effect."""
    return LeaderParts(
        PARTS,
        LeaderState(
            first=first,
            config=config,
            registry=metrics.registry,
            crashed=metrics.internal_errors.count,
            store=open_store(first.store.url),
            imported_at=lambda: 0.0,
            audit=NoAudit(),
            alone=False,
            run_dir=run_dir,
            freed=None,
        ),
    )
