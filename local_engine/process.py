"""The engine process: `python -m local_engine --socket PATH`.

The configuration is one line of JSON on stdin (or a file, `--config`). The parent keeps stdin
open; when stdin closes, the engine stops. The engine writes one line per startup stage to stdout,
the last one `ready`, and logs for humans to stderr. Exit status: 0 stopped, 1 the engine crashed,
2 the configuration cannot be served.
"""

import argparse
import asyncio
import faulthandler
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import FrameType

import msgspec
from transformers.utils import logging as transformers_logging

from local_engine.config import EngineConfig
from local_engine.execution.watchdog import LONGEST_TICK_S, Watchdog
from local_engine.server.connection import Connection
from local_engine.server.model_host import Hosting, host
from local_engine.server.service import Service
from schemas.errors import InvalidConfig

READY = "ready"
BROKEN, UNSERVABLE = 1, 2


class StopSignals:
    """Stops the process on SIGTERM and on the end of stdin, also while the weights load."""

    def __init__(self) -> None:
        self._stop: Callable[[], object] = lambda: os._exit(0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_signal)

    def then(self, stop: Callable[[], object]) -> None:
        """From now on, call `stop` (from any thread) instead of exiting at once."""
        self._stop = stop

    def watch_stdin(self) -> None:
        Thread(target=self._until_eof, name="stdin", daemon=True).start()

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self._stop()

    def _until_eof(self) -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        self._stop()


def main(arguments: list[str], hosting: Hosting = host) -> int:
    """hosting: loads the models."""
    parser = argparse.ArgumentParser(prog="local_engine")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    options = parser.parse_args(arguments)
    stop_signals = StopSignals()
    try:
        config = _configuration(options.config)
        if options.config is None:
            stop_signals.watch_stdin()
        if sys.stderr.isatty():
            transformers_logging.enable_progress_bar()
        else:
            transformers_logging.disable_progress_bar()
        service = Service(config, report=_report, hosting=hosting)
    except InvalidConfig as exc:
        _report(str(exc))
        return UNSERVABLE
    gc.collect()
    gc.freeze()
    gc.enable()
    watchdog = guard(service, config.step_timeout_s)
    watchdog.start()
    try:
        return asyncio.run(_serve(service, options.socket, stop_signals))
    finally:
        watchdog.stop()
        faulthandler.cancel_dump_traceback_later()


def guard(service: Service, limit_s: float) -> Watchdog:
    """Return a watchdog that logs all stacks and ends the process when a step hangs.

    If a kernel never releases the interpreter lock, the watchdog's own thread cannot run.
    faulthandler's thread still can, because it does not need the lock.
    """

    def end(line: str) -> None:
        _report(f"{line}; ending the process so that it restarts")
        faulthandler.dump_traceback(all_threads=True)
        os._exit(BROKEN)

    def rearm() -> None:
        faulthandler.dump_traceback_later(2 * limit_s + LONGEST_TICK_S, exit=True)

    return Watchdog(service.pulse, limit_s=limit_s, hung=end, tick=rearm)


async def _serve(service: Service, path: Path, stop_signals: StopSignals) -> int:
    """Serve until a stop signal arrives or the engine's thread ends by itself."""
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    stop_signals.then(lambda: loop.call_soon_threadsafe(stop_requested.set))
    service.start()
    server = await loop.create_unix_server(lambda: Connection(service), sock=_listener(path))
    _report(READY)
    stopping = asyncio.ensure_future(stop_requested.wait())
    broken = asyncio.ensure_future(service.ended())
    await asyncio.wait((stopping, broken), return_when=asyncio.FIRST_COMPLETED)
    server.close()
    if not stopping.done():
        stopping.cancel()
        return BROKEN
    await service.stop()
    broken.cancel()
    return 0


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


def _configuration(path: Path | None) -> EngineConfig:
    """Raises InvalidConfig."""
    try:
        text = sys.stdin.buffer.readline() if path is None else path.read_bytes()
        return msgspec.json.decode(text, type=EngineConfig)
    except (OSError, msgspec.DecodeError) as exc:
        raise InvalidConfig((f"the engine's configuration cannot be read: {exc}",)) from exc


def _report(line: str) -> None:
    """Write a line to the parent (stdout) and to stderr; ignore a parent that is gone."""
    try:
        print(f"engine: {line}", file=sys.stderr, flush=True)
        os.write(sys.stdout.fileno(), line.replace("\n", " ").encode() + b"\n")
    except BrokenPipeError:
        return
