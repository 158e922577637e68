"""The engine process: `python -m strowger_gateway.local_engine --socket PATH`, or `--listen
HOST:PORT`.

The configuration is one line of JSON on stdin (or a file, `--config`). The parent keeps stdin
open; when stdin closes, the engine stops. The engine writes one line per startup stage to stdout,
the last one `ready`, and logs for humans to stderr. Exit status: 0 stopped, 1 the engine crashed,
2 the configuration cannot be served.
"""

import asyncio
import faulthandler
import gc
import os
import socket
import sys
import traceback
from pathlib import Path

from transformers.utils import logging as transformers_logging

from strowger_gateway.local_engine.execution.watchdog import LONGEST_TICK_S, Watchdog
from strowger_gateway.local_engine.listening.draining import drained
from strowger_gateway.local_engine.listening.tcp_listener import (
    Listening,
    TcpListener,
    intake_of,
    warnings_of,
)
from strowger_gateway.local_engine.loading.load_faults import cause
from strowger_gateway.local_engine.server.connection import Connection
from strowger_gateway.local_engine.server.model_host import Hosting, host
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.local_engine.start import UNSERVABLE, Start, report
from strowger_gateway.schemas.errors import InvalidConfig

READY = "ready"
LISTENING = "listening on "
"""Prefix of the status line that has the address on TCP."""
BROKEN = 1


def main(start: Start, hosting: Hosting = host) -> int:
    """Serve until it is stopped; return the exit status. hosting: loads the models."""
    gc.freeze()  # imports leave almost no garbage, and a search among their objects takes long
    if sys.stderr.isatty():
        transformers_logging.enable_progress_bar()
    else:
        transformers_logging.disable_progress_bar()
    try:
        service = Service(start.config, report=report, hosting=hosting)
    except InvalidConfig as exc:
        report(str(exc))
        return UNSERVABLE
    except Exception as exc:  # noqa: BLE001  a restart would repeat it
        traceback.print_exc()
        report(f"the engine cannot start: {cause(exc)}")
        return UNSERVABLE
    gc.collect()
    gc.freeze()
    gc.enable()
    watchdog = guard(service, start.config.step_timeout_s)
    watchdog.start()
    try:
        return asyncio.run(_serve(service, start))
    except InvalidConfig as exc:
        report(str(exc))
        return UNSERVABLE
    finally:
        watchdog.stop()
        faulthandler.cancel_dump_traceback_later()


def guard(service: Service, limit_s: float) -> Watchdog:
    """Return a watchdog that logs all stacks and ends the process when a step hangs.

    If a kernel never releases the interpreter lock, the watchdog's own thread cannot run.
    faulthandler's thread still can, because it does not need the lock.
    """

    def end(line: str) -> None:
        report(f"{line}; ending the process so that it restarts")
        faulthandler.dump_traceback(all_threads=True)
        os._exit(BROKEN)

    def rearm() -> None:
        faulthandler.dump_traceback_later(2 * limit_s + LONGEST_TICK_S, exit=True)

    return Watchdog(service.pulse, limit_s=limit_s, hung=end, tick=rearm)


async def _serve(service: Service, start: Start) -> int:
    """Serve until a stop signal arrives or the engine's thread ends by itself.

    Raises InvalidConfig for an address or certificates that cannot be used.
    """
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    accepting: asyncio.Task[None] | None = None
    server: asyncio.Server | None = None
    tcp = None if start.listening is None else _tcp_listener(start.listening, service)
    start.stop_signals.then(lambda: loop.call_soon_threadsafe(stop_requested.set))
    service.start()
    if tcp is not None:
        accepting = asyncio.create_task(tcp.serve())
        report(f"{LISTENING}{tcp.address}")
    else:
        assert start.socket is not None
        server = await loop.create_unix_server(
            lambda: Connection(service), sock=_listener(start.socket)
        )
    report(READY)
    stopping = asyncio.ensure_future(stop_requested.wait())
    broken = asyncio.ensure_future(service.ended())
    await asyncio.wait((stopping, broken), return_when=asyncio.FIRST_COMPLETED)
    if server is not None:
        server.close()
    if tcp is not None and accepting is not None:
        accepting.cancel()
        tcp.close()
    if not stopping.done():
        stopping.cancel()
        return BROKEN
    if tcp is not None:
        await drained(tcp, start.drain_s)
    await service.stop()
    broken.cancel()
    return 0


def _tcp_listener(listening: Listening, service: Service) -> TcpListener:
    """Raises InvalidConfig."""
    intake = intake_of(listening)
    listener = TcpListener(
        listening, lambda: Connection(service, intake=intake, report=report), report
    )
    for line in warnings_of(listening):
        report(f"warning: {line}")
    return listener


def _listener(path: Path) -> socket.socket:
    """Return a Unix socket that only this user can open; replaces one left by a dead engine."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(mask)
    return listener
