"""Distributes what the processes of a gateway share, and what it shares with other gateways."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.coordination.breaker_messages import FromWorker, ProbesAt, ToWorker
from strowger_gateway.gateway.coordination.key_versions import KeyVersions, NoKeys
from strowger_gateway.gateway.coordination.probe_lease import LocalProbeBlocks
from strowger_gateway.gateway.coordination.probe_locks import PROBES, FileLeases, LocalLeases
from strowger_gateway.gateway.coordination.setup import transport_of
from strowger_gateway.gateway.coordination.state_hub import StateHub
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work

if TYPE_CHECKING:
    from strowger_gateway.gateway.coordination.gateway_sync import GatewaySync


class CoordinationLeader(LeaderSide[FromWorker, ToWorker | ProbesAt]):
    """hub: of the processes, and of the other gateways if there is a transport.

    holders: the probes of the only process; `None` if processes share them by files, or there is
    nothing to share.
    keys: the list of issued keys, whose version gateways exchange.
    """

    receives = FromWorker

    def __init__(self, at: LeaderContext) -> None:
        """Raises InvalidConfig."""
        self.hub = StateHub()
        self.keys: KeyVersions = NoKeys()
        self._transport = transport_of(at.first)
        self._alone = at.alone
        self._shares = self._transport is not None or not at.alone
        self.holders: dict[str, LocalLeases] | None = {} if at.alone and self._shares else None
        self._files = at.run_dir / PROBES
        self._config: Callable[[], Config] = at.config
        self._registry: CollectorRegistry = at.registry

    def first(self) -> ProbesAt | None:
        return None if self._alone else ProbesAt(file=os.fsencode(self._files))

    def joined(self, worker: int, send: Callable[[ToWorker | ProbesAt], None]) -> None:
        if self._shares:
            self.hub.join(worker, send)

    def left(self, worker: int) -> None:
        self.hub.leave(worker)

    def on_message(self, worker: int, message: FromWorker) -> None:
        self.hub.on_message(worker, message)

    def works(self) -> Sequence[Work]:
        if self._transport is None:
            return ()
        return (("gateway sync", self._sync().run),)

    def _sync(self) -> "GatewaySync":
        # Imported here: a gateway without Redis saves 0.7 MB.
        from strowger_gateway.gateway.coordination.gateway_sync import GatewaySync
        from strowger_gateway.gateway.coordination.metrics import GatewaysCollector

        assert self._transport is not None
        blocks: LocalProbeBlocks
        blocks = FileLeases(self._files) if self.holders is None else LocalLeases(self.holders)
        sync = GatewaySync(self.hub, self._transport, blocks, self._config, keys=self.keys)
        self._registry.register(GatewaysCollector(sync))
        return sync
