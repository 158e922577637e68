"""What `strowger serve` gives to the leader, or to the only process, and how signals end both."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts, LeaderState
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.coordination.probe_locks import ACCESS_LOG_LOCK
from strowger_gateway.gateway.fleet.listening.accept_queue import Mode
from strowger_gateway.gateway.fleet.listening.listening_socket import Listener
from strowger_gateway.gateway.fleet.listening.predecessor import Predecessor
from strowger_gateway.gateway.fleet.listening.successor import HandOver
from strowger_gateway.gateway.fleet.processes.closing import Closes
from strowger_gateway.gateway.fleet.processes.reload import Reload
from strowger_gateway.gateway.fleet.processes.signals import on_hand_over, on_hangup, on_stop
from strowger_gateway.gateway.observability.recording.setup import Records
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import MetricFamilies
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics

_REQUESTS: Final = "strowger_requests"
"""The metric whose label `surface` has the surfaces in use."""


class Launch(Struct, frozen=True, kw_only=True, eq=False):
    """source: the configuration file. read: reads it again; raises InvalidConfig.

    run_dir: a folder for sockets and lock files. predecessor: the gateway to take over from.
    """

    source: Path
    read: Callable[[], Config]
    listener: Listener
    run_dir: Path
    records: Records
    predecessor: Predecessor | None = None

    @property
    def surfaces(self) -> tuple[str, ...]:
        """Those that clients of the earlier gateway use."""
        return () if self.predecessor is None else self.predecessor.surfaces

    @property
    def freed(self) -> Callable[[], Awaitable[None]] | None:
        """See Predecessor.freed."""
        return None if self.predecessor is None else self.predecessor.freed

    def metrics(self) -> ProcessMetrics:
        """Return those of the leader, with those of the import."""
        made = ProcessMetrics()
        for collector in self.records.metrics:
            made.registry.register(collector)
        return made

    def leader_state(
        self, first: Config, config: Callable[[], Config], metrics: ProcessMetrics, *, alone: bool
    ) -> LeaderState:
        """Return what parts get of the leader. config: returns the one in effect."""
        importer = self.records.importer
        return LeaderState(
            first=first,
            config=config,
            registry=metrics.registry,
            crashed=metrics.internal_errors.count,
            store=self.records.store,
            imported_at=lambda: importer.status.whole_at,
            audit=self.records.audit,
            alone=alone,
            run_dir=self.run_dir,
            freed=self.freed,
        )

    def follow_signals(
        self,
        reload: Reload,
        parts: LeaderParts,
        *,
        drain: Callable[[Mode], None],
        stop_now: Callable[[], None],
        counted: Callable[[], Iterable[MetricFamilies]],
    ) -> HandOver:
        """Stop, reload and hand over by signals.

        parts: of the leader. counted: the metrics of the serving processes.
        """
        hand_over = HandOver(
            self.listener,
            self.run_dir / ACCESS_LOG_LOCK,
            carried=parts.carried,
            surfaces=lambda: _surfaces_in(counted()),
            drain=drain,
            release=partial(_release, parts, self.records),
        )
        on_stop(hand_over.stop, stop_now)
        on_hangup(reload.reload, hand_over.stop)
        on_hand_over(hand_over.begin)
        return hand_over

    def ends(self, hand_over: HandOver) -> tuple[Closes, ...]:
        """Both sides of hand-overs, to be closed."""
        return (hand_over,) if self.predecessor is None else (hand_over, self.predecessor)


async def _release(parts: LeaderParts, records: Records) -> None:
    """End what one gateway may do at a time: the next one does it from now on."""
    await asyncio.gather(parts.release(), records.release())


def _surfaces_in(counted: Iterable[MetricFamilies]) -> tuple[str, ...]:
    """Return the surfaces that have had requests."""
    return tuple(
        {
            value
            for families in counted
            for family in families
            if family.name == _REQUESTS
            for sample in family.samples
            for name, value in sample.labels
            if name == "surface"
        }
    )
