"""A worker process, which serves requests:
`python -m strowger_gateway.gateway.fleet.processes.worker`.

It gets the listening sockets and one end of a socket pair as file descriptor numbers, and
everything else as messages, the configuration first. When the leader exits, the worker finishes its
requests in flight and exits too.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path

from strowger_gateway.gateway.assembly.part_messages import packed
from strowger_gateway.gateway.fleet.processes.channel import Channel
from strowger_gateway.gateway.fleet.processes.main import loop_factory, open_access_log
from strowger_gateway.gateway.fleet.processes.messages import (
    Answer,
    Ask,
    Close,
    Commit,
    Committed,
    ConfigRejected,
    Discard,
    Drain,
    Drained,
    EngineUpdate,
    Heartbeat,
    Idle,
    ImportProblem,
    Open,
    PartMessage,
    PeerAnswers,
    Prepare,
    PrepareResult,
    Preparing,
    StopNow,
    ToWorker,
    WaitIdle,
    WorkerInit,
    WorkerReady,
    to_worker,
)
from strowger_gateway.gateway.fleet.processes.other_workers import (
    OtherWorkers,
    WorkerLink,
    answer_of,
)
from strowger_gateway.gateway.fleet.processes.reload_target import Proposal
from strowger_gateway.gateway.fleet.processes.remote_engine_view import RemoteEngineViews
from strowger_gateway.gateway.fleet.processes.server import Server as Served
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from strowger_gateway.gateway.observability.telemetry.logs import configure_logging
from strowger_gateway.gateway.platform.background import count_unhandled
from strowger_gateway.gateway.surfaces.late_module import import_translations

_log = logging.getLogger("strowger")

HEARTBEAT_S = 1.0
"""Interval between reports of counters to the leader: kill -9 loses at most this much.

A worker that does not hang sends a message at least this often."""


class Worker:
    """One worker, from its WorkerInit until it exits."""

    def __init__(
        self, begin: WorkerInit, channel: Channel[ToWorker], access_log: AccessLog
    ) -> None:
        self._channel = channel
        self._engines = RemoteEngineViews()
        run_dir = Path(os.fsdecode(begin.run_dir))
        self._others = OtherWorkers(channel)
        self._link = WorkerLink(begin, channel, self._others)
        self.serving = Served(
            begin.config,
            run_dir=run_dir,
            engines=self._engines.of(begin.engines),
            access_log=access_log,
            link=self._link,
        )
        self.serving.gateway.processes.peers = self._others
        self._tasks: set[asyncio.Task[None]] = set()
        self._gate, self._close = asyncio.Event(), asyncio.Event()
        if not begin.waits:
            self._gate.set()
        self._surfaces = begin.surfaces
        self.serving.draining.before_close = self._drained

    async def run(self, *listening: socket.socket) -> None:
        count_unhandled(self.serving.gateway.log.metrics.internal_errors.count)
        for work in (self._follow(), self._count()):
            task = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._fail)
        await asyncio.to_thread(import_translations, self._surfaces)
        self._channel.send(WorkerReady())
        try:
            await self.serving.run(*listening, gate=self._gate)
            self._send_counts()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _fail(self, task: asyncio.Task[None]) -> None:
        """Exit after an internal error: a worker that cannot exchange messages must be replaced."""
        if not task.cancelled() and (exc := task.exception()) is not None:
            self.serving.gateway.log.metrics.internal_errors.count("worker")
            message = "internal error in this worker; exiting after in-flight requests finish"
            _log.error(message, exc_info=exc)
            self._on_leader_lost()

    async def _follow(self) -> None:
        async for message in self._channel.messages():
            await self._on_message(message)
        _log.warning("lost the leader process; exiting after in-flight requests finish")
        self._on_leader_lost()

    def _on_leader_lost(self) -> None:
        self.serving.on_leader_lost()
        self._close.set()

    async def _drained(self) -> None:
        """Return when no worker has requests, and no connection waits for one of them."""
        self._channel.send(Drained())
        await self._close.wait()

    async def _on_message(self, message: ToWorker) -> None:
        match message:
            case PartMessage(part=part):
                self.serving.gateway.parts.receive(part, partial(self._link.received, message))
            case EngineUpdate():
                self._engines.update(message.engine)
            case Ask():
                self._channel.send(
                    Answer(id=message.id, body=answer_of(self.serving.gateway, message.question))
                )
            case PeerAnswers():
                self._others.on_message(message)
            case Prepare():
                self._channel.send(Preparing())
                await asyncio.sleep(0)  # let the loop send it before the blocking work
                proposal = Proposal(
                    number=message.number,
                    config=message.config,
                    engines=self._engines.of(message.engines),
                )
                problems = await self.serving.proposals.prepare(proposal)
                self._channel.send(PrepareResult(number=message.number, problems=problems))
            case Commit():
                await self.serving.proposals.commit(message.number)
                self._channel.send(Committed(number=message.number))
            case Discard():
                self.serving.proposals.discard(message.number)
            case WaitIdle():
                self._tasks.add(asyncio.create_task(self._wait_idle(message.id)))
            case ConfigRejected():
                self.serving.proposals.notify_config_rejected(rejected=message.rejected)
            case ImportProblem():
                self.serving.on_import_problem(message.problem)
            case Open():
                self._gate.set()
            case Drain():
                self.serving.drain(message.mode)
            case Close():
                self._close.set()
            case StopNow():
                self.serving.stop_now()
            case WorkerInit():
                raise AssertionError("WorkerInit was sent twice")

    async def _wait_idle(self, number: int) -> None:
        await self.serving.proposals.wait_old_requests()
        self._channel.send(Idle(id=number))

    async def _count(self) -> None:
        """Report the counters regularly: they outlive the worker, and show that it is alive."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if not self._send_counts():
                self._channel.send(Heartbeat())

    def _send_counts(self) -> bool:
        """Report the counters to the leader; False if nothing changed."""
        gateway = self.serving.gateway
        if not gateway.log.has_new_counts():
            return False
        self._channel.send(Answer(id=0, body=packed(gateway.processes.counted())))
        return True


async def run_worker(control: socket.socket, *listening: socket.socket) -> None:
    """Serve until the leader stops this worker or exits."""
    channel: Channel[ToWorker] = Channel(to_worker)
    await channel.connect(control)
    begin = await channel.next()
    if not isinstance(begin, WorkerInit):
        return
    configure_logging(begin.config.logging)
    access_log = open_access_log(begin.config, Path(os.fsdecode(begin.run_dir)))
    try:
        await Worker(begin, channel, access_log).run(*listening)
    finally:
        channel.close()
        access_log.close()


def main(arguments: list[str]) -> None:
    """Run a worker. Signals are ignored: the leader handles them and sends messages.

    arguments: file descriptors of the control socket and of the listening sockets. `argparse` would
    stay in the memory of each worker for these numbers.
    """
    control, *listening = [socket.socket(fileno=int(number)) for number in arguments]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run_worker(control, *listening))


if __name__ == "__main__":
    main(sys.argv[1:])
