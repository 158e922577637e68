"""Work beside the requests that lasts as long as its process: a crash is logged, counted, and the
work is started again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from gateway.clock import now

_log = logging.getLogger("strowger")

PAUSE_S, MAX_PAUSE_S = 1.0, 30.0
"""Before work that crashed is started again; doubled by each crash, forgotten after STEADY_S."""

STEADY_S = 60.0

OnCrash = Callable[[str], None]
"""Counts a crash. It gets the name of what crashed, one of a fixed few: it becomes a label."""


def ignore_crash(name: str) -> None:
    """For tests and commands, which show no metrics."""


async def keep_running(
    name: str,
    work: Callable[[], Awaitable[None]],
    crashed: OnCrash = ignore_crash,
    *,
    pause_s: float = PAUSE_S,
) -> None:
    """Do `work` until it returns or this is cancelled, again after each crash.

    name: for the log and the metric.
    """
    pause = pause_s
    while True:
        began = now()
        try:
            await work()
        except Exception:  # noqa: BLE001  a bug in it must not end it for as long as we run
            if now() - began > STEADY_S:
                pause = pause_s
            _log.exception("%s crashed by a bug of ours; starting it again in %g s", name, pause)
            crashed(name)
        else:
            return
        await asyncio.sleep(pause)
        pause = min(pause * 2.0, MAX_PAUSE_S)


def count_unhandled(crashed: OnCrash) -> None:
    """From now on, exceptions that nobody handled on this event loop count: of callbacks, and of
    tasks that nobody awaits. asyncio logs them."""
    asyncio.get_running_loop().set_exception_handler(partial(_unhandled, crashed))


def _unhandled(
    crashed: OnCrash, loop: asyncio.AbstractEventLoop, context: dict[str, object]
) -> None:
    if "exception" in context:
        crashed("event loop")
    loop.default_exception_handler(context)
