"""The leader's side of one worker process: its start, and what waits for its answers."""

import asyncio
import logging
import socket
from contextlib import suppress
from itertools import count
from typing import TypeVar

from strowger_gateway.gateway.fleet.listening.listening_socket import Listener
from strowger_gateway.gateway.fleet.processes.channel import Channel
from strowger_gateway.gateway.fleet.processes.messages import (
    Answer,
    Ask,
    Commit,
    Committed,
    ConfigRejected,
    Discard,
    Idle,
    Prepare,
    PrepareResult,
    Question,
    ToLeader,
    ToWorker,
    WaitIdle,
    state_of,
    to_leader,
)
from strowger_gateway.gateway.fleet.processes.reload_target import ProcessEnded, Proposal
from strowger_gateway.gateway.platform.child_environment import child_environment
from strowger_gateway.local_engine.child_process.interpreter import module_command

ANSWER_S = 0.5
"""Timeout of a worker's answer. A late worker is skipped; its last reported counts are used."""

HEARTBEATS = 10
"""Checks for a message until a silent worker counts as hung. Counting checks instead of reading a
clock means that a pause of the whole machine or container does not make a worker look hung."""

PREPARE_EXTENSIONS = 2
"""Extra multiples of HEARTBEATS that a worker may be silent while it prepares a configuration."""

_T = TypeVar("_T")
_log = logging.getLogger("strowger")


class WorkerHandle:
    """The leader's handle of one worker process, from start to exit: a Target of reloads.

    counted: the last reported counters.
    missed_heartbeats: consecutive checks without a message. drained: it has reported Drained.
    """

    def __init__(self, number: int, process: asyncio.subprocess.Process) -> None:
        self.number = number
        self.process = process
        self.channel: Channel[ToLeader] = Channel(to_leader)
        self.name = f"worker {number}"
        self.serving = asyncio.Event()
        self.counted: bytes | None = None
        self.missed_heartbeats = 0
        self.drained = self._lost = False
        self._ids = count(1)
        self._answers: dict[int, asyncio.Future[bytes | None]] = {}
        self._waiting_idle: dict[int, asyncio.Future[None]] = {}
        self._preparing: dict[int, asyncio.Future[tuple[str, ...]]] = {}
        self._committing: dict[int, asyncio.Future[None]] = {}

    def check(self, hang_s: float) -> None:
        """Kill the process at the last of HEARTBEATS checks, which take `hang_s` together."""
        self.missed_heartbeats += self.serving.is_set()
        if self.missed_heartbeats == HEARTBEATS:
            message = "%s (process %d) hangs: no message for %g s; killing it"
            _log.error(message, self.name, self.process.pid, hang_s)
            with suppress(ProcessLookupError):
                self.process.kill()

    def extend(self) -> None:
        """Give the worker more time to prepare a configuration."""
        self.missed_heartbeats = -PREPARE_EXTENSIONS * HEARTBEATS

    def send(self, message: ToWorker) -> None:
        self.channel.send(message)

    async def prepare(self, proposal: Proposal) -> tuple[str, ...]:
        """See Target.prepare."""
        if self._lost:
            raise ProcessEnded
        number = proposal.number
        preparing = self._preparing[number] = asyncio.get_running_loop().create_future()
        states = tuple(state_of(engine) for engine in proposal.engines.values())
        self.send(Prepare(number=number, config=proposal.config, engines=states))
        try:
            return await preparing
        finally:
            del self._preparing[number]

    async def commit(self, number: int) -> None:
        """See Target.commit."""
        if self._lost:
            return
        committing = self._committing[number] = asyncio.get_running_loop().create_future()
        self.send(Commit(number=number))
        await committing

    def discard(self, number: int) -> None:
        self.send(Discard(number=number))

    async def wait_old_requests(self) -> None:
        if self._lost:
            return
        number = next(self._ids)
        waiting = self._waiting_idle[number] = asyncio.get_running_loop().create_future()
        self.send(WaitIdle(id=number))
        await waiting

    def notify_config_rejected(self, *, rejected: bool) -> None:
        self.send(ConfigRejected(rejected=rejected))

    async def ask(self, question: Question) -> bytes | None:
        """Return the answer, or `None` if the worker does not answer in time or exits."""
        if self._lost:
            return None
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self.send(Ask(id=number, question=question))
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._answers[number]

    def on_message(self, message: PrepareResult | Committed | Idle | Answer) -> None:
        match message:
            case PrepareResult():
                _resolve(self._preparing.get(message.number), message.problems)
            case Committed():
                _resolve(self._committing.pop(message.number, None), None)
            case Idle():
                _resolve(self._waiting_idle.pop(message.id, None), None)
            case Answer(id=0):
                self.counted = message.body
            case Answer():
                _resolve(self._answers.get(message.id), message.body)

    def on_exit(self) -> None:
        """The process has exited: release everything that waits for it."""
        self._lost = True
        for preparing in self._preparing.values():
            if not preparing.done():
                preparing.set_exception(ProcessEnded)
        for waiting in (*self._committing.values(), *self._waiting_idle.values()):
            _resolve(waiting, None)
        for answer in self._answers.values():
            _resolve(answer, None)


async def spawn(control: socket.socket, listener: Listener) -> asyncio.subprocess.Process:
    """Start a worker, which inherits the sockets and our output, nothing else. Raises OSError."""
    numbers = (control.fileno(), *(one.fileno() for one in listener.sockets))
    return await asyncio.create_subprocess_exec(
        *module_command("strowger_gateway.gateway.fleet.processes.worker"),
        *map(str, numbers),
        stdin=asyncio.subprocess.DEVNULL,
        pass_fds=numbers,
        env=child_environment(),
    )


def _resolve(future: "asyncio.Future[_T] | None", value: _T) -> None:
    if future is not None and not future.done():
        future.set_result(value)
