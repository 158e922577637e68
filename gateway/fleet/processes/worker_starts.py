"""Start worker processes, one after the other, with what is in effect at that moment."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts
from strowger_gateway.gateway.assembly.part_messages import packed
from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.fleet.listening.listening_socket import Listener
from strowger_gateway.gateway.fleet.processes.messages import ImportProblem, WorkerInit, state_of
from strowger_gateway.gateway.fleet.processes.worker_handle import WorkerHandle, spawn
from strowger_gateway.gateway.platform.code_on_disk import CodeOnDisk

Current = Callable[[], tuple[Config, Sequence[EngineView], bool]]
"""Returns the configuration, its engines, and whether a newer version of the file was rejected."""


class WorkerStarts:
    """waits: workers accept connections only after Open. surfaces: loaded before a worker serves.
    import_problem: why records are not imported now; "" if they are.
    current: what a worker starts with; to be set before the first one.
    """

    def __init__(self, listener: Listener, run_dir: Path, parts: LeaderParts) -> None:
        self.listener = listener
        self.parts = parts
        self.waits = False
        self.surfaces: tuple[str, ...] = ()
        self.import_problem = ""
        self.current: Current
        self._run_dir = run_dir
        self._code = CodeOnDisk()
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def hold(self) -> AsyncGenerator[None, None]:
        """Prevent worker starts during the block: a new worker would get an older configuration."""
        async with self._lock:
            yield

    async def start(self, number: int, joined: Callable[[WorkerHandle], None]) -> WorkerHandle:
        """Start a process, and send it what it begins with.

        joined: called before what is in effect can change. Raises CodeChanged, and OSError if it
        cannot be started.
        """
        await asyncio.to_thread(self._code.check)
        ours, theirs = socket.socketpair()
        async with self._lock:
            with theirs:
                try:
                    process = await spawn(theirs, self.listener)
                except OSError:
                    ours.close()
                    raise
            worker = WorkerHandle(number, process)
            await worker.channel.connect(ours)
            try:
                self._tell(worker)
                joined(worker)
            except BaseException:
                await _kill(worker)
                raise
        return worker

    def _tell(self, worker: WorkerHandle) -> None:
        """Send what a new worker starts with."""
        config, engines, rejected = self.current()
        worker.send(
            WorkerInit(
                worker=worker.number,
                config=config,
                engines=tuple(map(state_of, engines)),
                run_dir=os.fsencode(self._run_dir),
                waits=self.waits,
                surfaces=self.surfaces,
                parts={part: packed(one) for part, one in self.parts.first().items()},
            )
        )
        worker.notify_config_rejected(rejected=rejected)
        worker.send(ImportProblem(problem=self.import_problem))


async def _kill(worker: WorkerHandle) -> None:
    """End a process that never got its configuration."""
    worker.channel.close()
    with contextlib.suppress(ProcessLookupError):
        worker.process.kill()
    await worker.process.wait()
