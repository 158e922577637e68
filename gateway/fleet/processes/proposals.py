"""Configurations that are proposed to a serving process: prepared, then in effect or dropped."""

import logging
from pathlib import Path

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.part_failures import told
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.fleet.processes.reload_target import Proposal
from strowger_gateway.gateway.observability.telemetry.logs import set_level
from strowger_gateway.schemas.errors import InvalidConfig

_log = logging.getLogger("strowger")


class Proposals:
    """A Target of reloads. name: for the log when this is the only serving process."""

    def __init__(self, gateway: Gateway, run_dir: Path) -> None:
        self.name = "this process"
        self._gateway = gateway
        self._run_dir = run_dir
        self._prepared: tuple[int, Runtime] | None = None

    async def prepare(self, proposal: Proposal) -> tuple[str, ...]:
        """See Target.prepare."""
        gateway, runtime = self._gateway, None
        try:
            runtime = Runtime(
                proposal.config,
                run_dir=self._run_dir,
                engines=proposal.engines,
                before=gateway.runtime,
                discovered=gateway.generations.replicas,
                parts=gateway.parts.listed,
            )
            await gateway.parts.ready(proposal.config)
        except Exception as exc:  # noqa: BLE001  no file may stop the current configuration
            if runtime is not None:
                gateway.generations.drop(runtime)
            if isinstance(exc, InvalidConfig):
                return exc.problems
            _log.exception("cannot build the configuration")
            return (f"cannot be built: {told(exc)}",)
        self._prepared = (proposal.number, runtime)
        return ()

    async def commit(self, number: int) -> None:
        """See Target.commit; takes effect immediately."""
        if self._prepared is None or self._prepared[0] != number:
            return
        runtime, self._prepared = self._prepared[1], None
        self._gateway.use_runtime(runtime)
        set_level(runtime.config.logging)
        generations = self._gateway.generations
        generations.use_replicas(generations.replicas)  # those that changed after `prepare`

    def discard(self, number: int) -> None:
        """See Target.discard. Parts may have opened something for the prepared Runtime."""
        if self._prepared is not None and self._prepared[0] == number:
            self._gateway.generations.drop(self._prepared[1])
            self._prepared = None

    async def wait_old_requests(self) -> None:
        """See Target.wait_old_requests."""
        await self._gateway.generations.wait_old_requests()

    def notify_config_rejected(self, *, rejected: bool) -> None:
        """See Target.notify_config_rejected."""
        self._gateway.processes.status.config_rejected = rejected
