"""The engine processes of the whole gateway: one owner, who starts, replaces and stops them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from gateway.config.schema import Config
from gateway.engine_process.process import EngineProcess, engine_settings
from gateway.runtime import engine_processes
from gateway.telemetry.logs import line_style

_log = logging.getLogger("strowger")


def _ignore(engine: EngineProcess) -> None:
    """Who is told of new engines where nobody is."""


async def _at_once() -> None:
    """Without waiting."""


class EnginePlan(Struct, frozen=True, kw_only=True, eq=False):
    """Which engines a configuration has.

    processes: by provider: those that go on as they are, and new ones, which are not started.
    problems:  changes that it may not make.
    """

    processes: Mapping[str, EngineProcess]
    problems: tuple[str, ...] = ()


class EnginePool:
    """Owns the engines from `start` to `close`. processes: by provider, as configured now."""

    def __init__(
        self,
        config: Config,
        run_dir: Path,
        *,
        made: Callable[[EngineProcess], None] = _ignore,
        until: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        """made: is given each new engine. until: before the gateway says that it is ready."""
        self.processes: Mapping[str, EngineProcess] = engine_processes(config, run_dir)
        self._run_dir = run_dir
        self._made = made
        self._until = until
        for engine in self.processes.values():
            made(engine)
        self._leaving: list[EngineProcess] = []
        self._started: set[EngineProcess] = set()
        self._starting: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Returns at once; loading goes on, and remote providers are served meanwhile."""
        self._begin()

    def plan(self, config: Config, number: int) -> EnginePlan:
        """What would become of the engines. number: of the proposal; makes new sockets' names."""
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
                    f"providers.{name}.engine: its settings, or its share of this machine, "
                    "change: that needs a restart, or `reload: replace`"
                )
            gathers = line_style(config.logging) == "json"
            processes[name] = EngineProcess(
                name, settings, self._run_dir, generation=number, gathers=gathers
            )
            self._made(processes[name])
        return EnginePlan(processes=processes, problems=tuple(problems))

    def apply(self, plan: EnginePlan) -> Sequence[EngineProcess]:
        """The plan is in force: new engines start. Returns those that are to be stopped.

        One that replaces another starts in `stop`, when the other has gone and freed its memory.
        """
        before, self.processes = self.processes, plan.processes
        leaving = [one for name, one in before.items() if plan.processes.get(name) is not one]
        self._leaving += leaving
        self._begin()
        return leaving

    async def stop(self, leaving: Sequence[EngineProcess]) -> None:
        """Stop what `adopt` returned, and start what comes in its place."""
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
        """Start those that have not begun and whose place is free."""
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
        for engine in engines:
            if not await engine.wait_ready():
                _log.error("the engine of provider %s is %s", engine.name, engine.status)
                return
        await self._until()
        _log.info("ready")
