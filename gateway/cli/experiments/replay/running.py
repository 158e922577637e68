"""Run a replay until it is decided, bounded or interrupted, under a lease that only it has."""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.cli.address import Address
from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.gateway.cli.experiments.replay.client import ReplayClient
from strowger_gateway.gateway.experiments.replay.calls import Calls
from strowger_gateway.gateway.experiments.replay.rows import LeaseLost, ReplayRows, ReplayRun
from strowger_gateway.gateway.experiments.replay.spending import Bound, Spending
from strowger_gateway.gateway.experiments.replay.work import Replay, ReplayPrices, ReplayProgress

INTERRUPTED: Final = "interrupted"
_TAKEN: Final = "{run}: another command works on it ({who}); wait for it, or stop it"


class ReplaySite(Struct, frozen=True, kw_only=True):
    """Where and how a run asks."""

    address: Address
    key: str
    concurrency: int
    bound: Bound
    prices: ReplayPrices


def run_replay(rows: ReplayRows, run: ReplayRun, at: ReplaySite, progress: ReplayProgress) -> str:
    """Work on a run; return why it ended. Raises Faults if another command works on it."""
    holder = _holder()
    gone = [run.holder] if run.holder and _is_gone(run.holder) else []
    if other := rows.lease(run.name, holder, time.time(), gone):
        raise Faults((_TAKEN.format(run=run.name, who=_who(other)),))
    ended = "it failed"
    try:
        ended = asyncio.run(_work(rows, run, holder, at, progress))
    except LeaseLost as exc:
        raise Faults((f"{run.name}: another command has taken it over",)) from exc
    except KeyboardInterrupt:
        ended = INTERRUPTED
        raise
    finally:
        rows.release(run.name, holder, ended)
    return ended


async def _work(
    rows: ReplayRows, run: ReplayRun, holder: str, at: ReplaySite, progress: ReplayProgress
) -> str:
    client = ReplayClient(at.address, at.key)
    spending = Spending(at.bound, rows.charged(run.name))
    calls = Calls(rows, run.name, holder, client, spending, progress.waits, at.concurrency)
    work = Replay(rows, run.name, run.definition, holder, calls, at.prices, progress)
    loop = asyncio.get_running_loop()
    try:
        with _interruptible(loop, work):
            return await work.work(at.concurrency)
    finally:
        await client.aclose()


@contextmanager
def _interruptible(loop: asyncio.AbstractEventLoop, work: Replay) -> Generator[None]:
    """The first Ctrl-C, or SIGTERM, sends no further calls; a second one ends at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, earlier[signal.Signals(number)])
        loop.call_soon_threadsafe(work.stop, INTERRUPTED)

    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread gets signals
        return
    earlier = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    for one in earlier:
        signal.signal(one, stop)
    try:
        yield
    finally:
        for one, handler in earlier.items():
            signal.signal(one, handler)


def _holder() -> str:
    """Return this process as the holder of a lease: host, process, and when it began."""
    pid = os.getpid()
    return f"{socket.gethostname()} {pid} {_began(pid)}"


def _began(pid: int) -> str:
    """Return when a process began, in ticks; "" if there is none, or where that is not known.

    https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html, field 22
    """
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _is_gone(holder: str) -> bool:
    """Whether a holder was a process of this machine that has ended."""
    host, _, rest = holder.partition(" ")
    pid, _, began = rest.partition(" ")
    if host != socket.gethostname() or not pid.isdigit() or not began:
        return False
    return _began(int(pid)) != began


def _who(holder: str) -> str:
    host, _, rest = holder.partition(" ")
    return f"process {rest.partition(' ')[0]} on {host}"
