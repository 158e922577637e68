"""Background work that runs as long as its process: log, count and restart it when it crashes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from strowger_gateway.gateway.platform.clock import now

_log = logging.getLogger("strowger")

PAUSE_S, MAX_PAUSE_S = 1.0, 30.0
"""Delay before crashed work restarts; doubled by each crash, reset after STEADY_S."""

STEADY_S = 60.0

OnCrash = Callable[[str], None]
"""Count a crash. The name of the work is a metric label: one of a small fixed set."""


def ignore_crash(name: str) -> None:
    """Do not count; for tests and commands, which export no metrics."""


async def keep_running(
    name: str,
    work: Callable[[], Awaitable[None]],
    crashed: OnCrash = ignore_crash,
    *,
    pause_s: float = PAUSE_S,
) -> None:
    """Run `work` until it returns or is cancelled; restart it after each crash.

    name: for the log and the metric.
    """
    pause = pause_s
    while True:
        began = now()
        try:
            await work()
        except Exception:  # noqa: BLE001  a bug must not end it for good
            if now() - began > STEADY_S:
                pause = pause_s
            _log.exception("internal error: %s crashed; restarting in %g s", name, pause)
            crashed(name)
        else:
            return
        await asyncio.sleep(pause)
        pause = min(pause * 2.0, MAX_PAUSE_S)


def count_unhandled(crashed: OnCrash) -> None:
    """Count the unhandled exceptions of this event loop, which asyncio logs.

    They come from callbacks, and from tasks that are not awaited.
    """
    asyncio.get_running_loop().set_exception_handler(partial(_unhandled, crashed))


def _unhandled(
    crashed: OnCrash, loop: asyncio.AbstractEventLoop, context: dict[str, object]
) -> None:
    if "exception" in context:
        crashed("event loop")
    loop.default_exception_handler(context)
