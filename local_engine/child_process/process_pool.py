"""Child processes for work that cannot be stopped in a thread and would block the process.

A child starts when it is first needed and is reused. It is killed when the waiting client
disconnects, when the task takes too long, and when this process ends.
"""

import asyncio
import atexit
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import BinaryIO, cast

from strowger_gateway.local_engine.child_process import messages
from strowger_gateway.local_engine.child_process.interpreter import import_path, module_command

IDLE = 2
"""Idle children that are kept for the next task."""

THREADS = 8
"""Threads that wait for a child's reply; the gates limit how many tasks run at a time."""

LARGE_BYTES = 4 << 20
"""Task size from which a child ends afterwards, because it does not return its memory."""

START_S, WALL_TIMES = 15.0, 4
"""Allowance in wall time for starting the child, and the factor on the CPU time for a busy
machine."""


class TooMuchWork(Exception):
    """The task exceeded its CPU time or memory, or crashed the child."""


class Starved(Exception):
    """The machine was too busy to finish the task in time; the task itself may be valid."""


class Pool:
    """Call its methods on an event loop; several loops may follow each other."""

    def __init__(self) -> None:
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._threads: ThreadPoolExecutor | None = None

    async def run(
        self, task: messages.Task, *, tokenizer: str, cpu_s: int, size: int = 0
    ) -> messages.Reply:
        """tokenizer: the tokenizer.json named by the task's `key`. size: bytes of the task.

        Cancelling kills the child. Raises TooMuchWork and Starved.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="child-process")
            atexit.register(self.close)
        child = self._idle.pop() if self._idle else _Child()
        self._all.add(child)
        loop = asyncio.get_running_loop()
        kept = False
        try:
            async with asyncio.timeout(START_S + WALL_TIMES * cpu_s):
                call = loop.run_in_executor(self._threads, child.call, task, tokenizer, cpu_s)
                answer = await call
        except TimeoutError as exc:
            raise Starved from exc
        else:
            kept = size <= LARGE_BYTES and len(self._idle) < IDLE
            return answer
        finally:
            if kept:
                self._idle.append(child)
            else:
                self._all.discard(child)
                child.end()

    def close(self) -> None:
        """End all children. Later tasks start new ones."""
        self._idle.clear()
        while self._all:
            self._all.pop().end()


class _Child:
    """One process, started by its first task.

    `end` is called on the event loop while `call` may be blocked in its thread; the lock decides
    which of them closes the pipes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[str, str] = {}
        self._running = False
        self._ended = False

    def call(self, task: messages.Task, tokenizer: str, cpu_s: int) -> messages.Reply:
        """Run one task; blocks. Raises TooMuchWork, and Starved if the child was ended."""
        with self._lock:
            if self._ended:
                raise Starved
            self._running = True
            process = self._process = self._process or _spawn()
        try:
            body = self._exchange(process, task, tokenizer, cpu_s)
        finally:
            with self._lock:
                self._running = False
                if self._ended:
                    _reap(process)
        if not body:
            raise TooMuchWork(_ending(process.wait()))
        answer = messages.decode_reply.decode(body)
        if isinstance(answer, messages.Broken):
            raise TooMuchWork(answer.reason)
        return answer

    def _exchange(
        self, process: subprocess.Popen[bytes], task: messages.Task, tokenizer: str, cpu_s: int
    ) -> bytes:
        """Return the reply's bytes; b"" if the child ended before it."""
        tasks, replies = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)
        try:
            if self._known.get(task.key) is not tokenizer:
                messages.write(tasks, messages.Load(key=task.key, tokenizer=tokenizer))
                self._known[task.key] = tokenizer
            messages.write(tasks, messages.CpuLimit(cpu_s=cpu_s))
            messages.write(tasks, task)
            return messages.read(replies)
        except OSError:
            return b""

    def end(self) -> None:
        """Kill the child; a running `call` returns at once and reaps it."""
        with self._lock:
            self._ended = True
            process = self._process
            if process is None:
                return
            process.kill()
            if not self._running:
                _reap(process)


def _reap(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()


def _spawn() -> subprocess.Popen[bytes]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")
    }
    environment["PYTHONPATH"] = import_path()
    environment["TOKENIZERS_PARALLELISM"] = "false"
    return subprocess.Popen(
        module_command("strowger_gateway.local_engine.child_process.main"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def _ending(status: int) -> str:
    if status == -signal.SIGXCPU:
        return "it takes too long"
    if status in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGKILL):
        return "it needs too much memory"
    return f"the process that worked on it ended with status {status}"


pool = Pool()
"""The pool of this process."""
