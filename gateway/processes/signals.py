"""Signal handling of the leader: SIGTERM, SIGINT and SIGHUP."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable


def on_stop(drain: Callable[[], None], stop_now: Callable[[], None]) -> None:
    """Drain on SIGTERM and the first Ctrl-C; stop without waiting on a second Ctrl-C."""
    stopping = False

    def handle(number: int) -> None:
        nonlocal stopping
        if stopping and number == signal.SIGINT:
            stop_now()
        stopping = True
        drain()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, handle, number)


def on_reload(reload: Callable[[str], Awaitable[object]]) -> None:
    """Reload the configuration on SIGHUP."""
    if sys.platform == "win32":
        return
    running: set[asyncio.Future[object]] = set()

    def handle() -> None:
        task = asyncio.ensure_future(reload("SIGHUP"))
        running.add(task)
        task.add_done_callback(running.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, handle)
