"""Signal handling of the leader: SIGTERM, SIGINT, SIGHUP and SIGUSR2."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable

_log = logging.getLogger("strowger")


def on_stop(drain: Callable[[], None], stop_now: Callable[[], None]) -> None:
    """Drain on SIGTERM and the first Ctrl-C; stop without waiting on a second Ctrl-C."""
    stopping = False

    def handle(number: int) -> None:
        nonlocal stopping
        if stopping and number == signal.SIGINT:
            stop_now()
        elif number == signal.SIGINT and _has_terminal():
            _log.info("stopping; Ctrl-C again stops without waiting for requests")
        stopping = True
        drain()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, handle, number)


def on_hangup(reload: Callable[[str], Awaitable[object]], drain: Callable[[], None]) -> None:
    """Reload the configuration on SIGHUP; drain if it means that our terminal was closed.

    A gateway that went on without its terminal would hold its port, unseen. `nohup` starts
    it with SIGHUP ignored, and then no terminal matters.
    """
    if sys.platform == "win32":
        return
    ours = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN and _has_terminal()
    running: set[asyncio.Future[object]] = set()

    def handle() -> None:
        if ours and not _has_terminal():
            _log.warning("the terminal was closed")
            drain()
            return
        task = asyncio.ensure_future(reload("SIGHUP"))
        running.add(task)
        task.add_done_callback(running.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, handle)


def ignore_hand_over() -> None:
    """Ignore SIGUSR2 until `on_hand_over`: by default it would end a gateway that is starting."""
    if sys.platform != "win32":
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def on_hand_over(begin: Callable[[], None]) -> None:
    """Start a new gateway on SIGUSR2, to hand over to it."""
    if sys.platform != "win32":
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, begin)


def _has_terminal() -> bool:
    """True if a terminal controls this process. A terminal that hangs up controls none: tty(4)."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
