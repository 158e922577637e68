"""What the signals mean to the process that leads."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable


def on_stop(drain: Callable[[], None], leave: Callable[[], None]) -> None:
    """SIGTERM and the first Ctrl-C drain; a second Ctrl-C does not wait."""
    told = False

    def hear(number: int) -> None:
        nonlocal told
        if told and number == signal.SIGINT:
            leave()
        told = True
        drain()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, hear, number)


def on_reload(reload: Callable[[str], Awaitable[object]]) -> None:
    """SIGHUP reads the configuration again."""
    if sys.platform == "win32":
        return
    running: set[asyncio.Future[object]] = set()

    def hear() -> None:
        task = asyncio.ensure_future(reload("SIGHUP"))
        running.add(task)
        task.add_done_callback(running.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hear)
