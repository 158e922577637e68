"""The engine processes of the whole gateway: started, replaced and stopped by one owner."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from strowger_gateway.gateway.assembly.wiring.engine_processes import engine_processes
from strowger_gateway.gateway.backends.engines.process.process import EngineProcess, engine_settings
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.telemetry.logs import message_style

_log = logging.getLogger("strowger")


def _ignore(engine: EngineProcess) -> None:
    """The default of `made`."""


async def _at_once() -> None:
    """The default of `until`: do not wait."""


class EnginePlan(Struct, frozen=True, kw_only=True, eq=False):
    """The engines of a proposed configuration.

    processes: by provider: unchanged engines, and new ones, which are not started yet.
    problems:  changes that need a restart.
    """

    processes: Mapping[str, EngineProcess]
    problems: tuple[str, ...] = ()


class EnginePool:
    """Own the engines from `start` to `close`. processes: by provider, as configured now."""

    def __init__(
        self,
        config: Config,
        run_dir: Path,
        *,
        made: Callable[[EngineProcess], None] = _ignore,
        until: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        """made: called with each new engine. until: awaited before the log says "ready"."""
        self.processes: Mapping[str, EngineProcess] = engine_processes(config, run_dir)
        self._run_dir = run_dir
        self._made = made
        self._until = until
        for engine in self.processes.values():
            made(engine)
        self._leaving: list[EngineProcess] = []
        self._started: set[EngineProcess] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._warmed, self._failed = asyncio.Event(), False

    async def warm(self) -> bool:
        """Return when the first engines are ready, or false when one of them has failed."""
        await self._warmed.wait()
        return not self._failed

    def start(self) -> None:
        """Start loading and return; remote providers are served while engines load."""
        self._begin()

    def plan(self, config: Config, number: int) -> EnginePlan:
        """Plan the engines of a proposed configuration; start and stop nothing.

        number: of the proposal, part of the names of new sockets.
        """
        local = [provider for provider in config.providers if provider.engine is not None]
        processes: dict[str, EngineProcess] = {}
        problems: list[str] = []
        for provider in local:
            assert provider.engine is not None
            name = provider.name
            settings = engine_settings(provider, engines=len(local))
            running = self.processes.get(name)
            if running is not None and running.settings == settings:
                processes[name] = running
                continue
            if running is not None and provider.engine.reload == "refuse":
                problems.append(
                    f"providers.{name}.engine: its settings or its share of this machine change, "
                    "which needs a restart or `reload: replace`"
                )
            log_stderr = message_style(config.logging) == "json"
            processes[name] = EngineProcess(
                name, settings, self._run_dir, generation=number, log_stderr=log_stderr
            )
            self._made(processes[name])
        return EnginePlan(processes=processes, problems=tuple(problems))

    def apply(self, plan: EnginePlan) -> Sequence[EngineProcess]:
        """Put the plan into effect and start new engines; return the engines to stop.

        A replacement starts in `stop`, after the engine it replaces has freed its memory.
        """
        before, self.processes = self.processes, plan.processes
        leaving = [one for name, one in before.items() if plan.processes.get(name) is not one]
        self._leaving += leaving
        self._begin()
        return leaving

    async def stop(self, leaving: Sequence[EngineProcess]) -> None:
        """Stop the engines that `apply` returned, and start their replacements."""
        for one in leaving:
            await one.stop()
            self._leaving.remove(one)
        self._begin()

    async def close(self) -> None:
        for task in tuple(self._starting):
            task.cancel()
        if self._starting:
            await asyncio.wait(tuple(self._starting))
        for one in (*self._leaving, *self.processes.values()):
            await one.stop()

    def _begin(self) -> None:
        """Start the engines that have not started and whose predecessor is gone."""
        taken = {one.name for one in self._leaving}
        new = [
            one
            for name, one in self.processes.items()
            if one not in self._started and name not in taken
        ]
        self._started = {one for one in (*self._started, *new) if one in self._all()}
        if new or not self.processes:
            task = asyncio.create_task(self._warm(new))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    def _all(self) -> set[EngineProcess]:
        return {*self._leaving, *self.processes.values()}

    async def _warm(self, engines: Sequence[EngineProcess]) -> None:
        for engine in engines:
            await engine.start()
        failed = False
        for engine in engines:
            if not await engine.wait_ready():
                _log.error("the engine of provider %s is %s", engine.name, engine.status)
                failed = True
        self._failed = failed
        self._warmed.set()
        if failed:
            return
        await self._until()
        _log.info("ready")
