"""The engine process: `python -m local_engine --socket PATH`.

The configuration comes as one line of JSON on stdin (or from a file, `--config`). stdin stays
open for as long as the parent lives: its end is the engine's end. One line a stage goes to
stdout, the last of them `ready`; people read stderr. Exit status: 0 was stopped, 1 the engine
broke, 2 the configuration cannot be served.
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
    """Who says when to stop: SIGTERM, and the end of stdin, also while the weights load."""

    def __init__(self) -> None:
        self._stop: Callable[[], object] = lambda: os._exit(0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_signal)

    def then(self, stop: Callable[[], object]) -> None:
        """From now on `stop` is called instead of leaving at once; from any thread."""
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
    """Ends the process when a step hangs, and tells where it does.

    Where not even the watchdog's own thread gets to run any more, because a kernel never gives
    the interpreter back, faulthandler's does: it needs no interpreter.
    """

    def end(line: str) -> None:
        _report(f"{line}; the process ends, so that another starts")
        faulthandler.dump_traceback(all_threads=True)
        os._exit(BROKEN)

    def rearm() -> None:
        faulthandler.dump_traceback_later(2 * limit_s + LONGEST_TICK_S, exit=True)

    return Watchdog(service.pulse, limit_s=limit_s, hung=end, tick=rearm)


async def _serve(service: Service, path: Path, stop_signals: StopSignals) -> int:
    """Listens until it is told to stop, or the engine's thread ends by itself."""
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
    """A Unix socket that only this user can reach; one that a dead engine left behind goes."""
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
    """For the parent on stdout, for people on stderr; a parent that is gone does not matter."""
    try:
        print(f"engine: {line}", file=sys.stderr, flush=True)
        os.write(sys.stdout.fileno(), line.replace("\n", " ").encode() + b"\n")
    except BrokenPipeError:
        return
