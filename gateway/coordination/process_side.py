"""What a serving process shares of its backends, and takes over from the other processes."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from strowger_gateway.gateway.coordination.breaker_messages import FromWorker, ProbesAt, ToWorker
from strowger_gateway.gateway.coordination.probe_locks import FileLeases, LocalLeases
from strowger_gateway.gateway.coordination.state_sharing import (
    SharedRuntime,
    SharingGateway,
    StateSharing,
)
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide

if TYPE_CHECKING:
    from strowger_gateway.gateway.coordination.leader_side import CoordinationLeader


class CoordinationSide(ProcessSide[FromWorker, ToWorker]):
    """A gateway of one process that has no others to talk to shares nothing."""

    receives = ToWorker

    def __init__(self, at: ProcessContext) -> None:
        self._files: FileLeases | None = None
        self._sharing: StateSharing | None = None
        leases: FileLeases | LocalLeases | None = None
        shared = at.first(ProbesAt)
        if shared is not None:
            leases = self._files = FileLeases(Path(os.fsdecode(shared.file)))
        elif at.leader is not None:
            holders = cast("CoordinationLeader", at.leader).holders
            leases = None if holders is None else LocalLeases(holders)
        if leases is not None:
            self._sharing = StateSharing(at.own(SharingGateway), leases, at.send)

    @property
    def differing(self) -> int:
        """Return how many other gateways run another configuration, as far as Redis shows."""
        return 0 if self._sharing is None else self._sharing.differing

    def follow(self, generation: SharedRuntime) -> None:
        if self._sharing is not None:
            self._sharing.follow(generation)

    def on_message(self, message: ToWorker) -> None:
        if self._sharing is not None:
            self._sharing.on_message(message)

    def works(self) -> Sequence[Work]:
        return () if self._sharing is None else (("load sharing", self._sharing.send_updates),)

    async def close(self, within_s: float) -> None:
        if self._files is not None:
            self._files.close()
