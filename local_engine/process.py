"""The engine process: `python -m local_engine --socket PATH`, or `--listen HOST:PORT`.

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
from local_engine.listening.draining import drained
from local_engine.listening.options import add_listening, listening_of
from local_engine.listening.tcp_listener import Listening, TcpListener
from local_engine.server.connection import Connection
from local_engine.server.model_host import Hosting, host
from local_engine.server.service import Service
from schemas.errors import InvalidConfig

READY = "ready"
LISTENING = "listening on "
"""Prefix of the status line that has the address on TCP."""
BROKEN, UNSERVABLE = 1, 2


class StopSignals:
    """Stops the process on SIGTERM and on the end of stdin, also while the weights load."""

    def __init__(self, *, alone: bool = False) -> None:
        """alone: no parent handles Ctrl-C for it."""
        self._stop: Callable[[], object] = lambda: os._exit(0)
        signal.signal(signal.SIGINT, self._on_signal if alone else signal.SIG_IGN)
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
    parser.add_argument("--socket", type=Path)
    parser.add_argument("--config", type=Path)
    add_listening(parser)
    options = parser.parse_args(arguments)
    if (options.socket is None) == (options.listen is None):
        parser.error("give --socket or --listen")
    stop_signals = StopSignals(alone=options.config is not None)
    try:
        listening = None if options.listen is None else listening_of(options)
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
        if listening is None:
            return asyncio.run(_serve(service, stop_signals, path=options.socket))
        return asyncio.run(
            _serve(service, stop_signals, listening=listening, drain_s=options.drain_s)
        )
    except InvalidConfig as exc:
        _report(str(exc))
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
        _report(f"{line}; ending the process so that it restarts")
        faulthandler.dump_traceback(all_threads=True)
        os._exit(BROKEN)

    def rearm() -> None:
        faulthandler.dump_traceback_later(2 * limit_s + LONGEST_TICK_S, exit=True)

    return Watchdog(service.pulse, limit_s=limit_s, hung=end, tick=rearm)


async def _serve(
    service: Service,
    stop_signals: StopSignals,
    *,
    path: Path | None = None,
    listening: Listening | None = None,
    drain_s: float = 0.0,
) -> int:
    """Serve until a stop signal arrives or the engine's thread ends by itself.

    path: of the Unix socket, if there is no `listening`. drain_s: time for requests to finish.
    Raises InvalidConfig for an address or certificates that cannot be used.
    """
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    accepting: asyncio.Task[None] | None = None
    server: asyncio.Server | None = None
    tcp = (
        None if listening is None else TcpListener(listening, lambda: Connection(service), _report)
    )
    stop_signals.then(lambda: loop.call_soon_threadsafe(stop_requested.set))
    service.start()
    if tcp is not None:
        accepting = asyncio.create_task(tcp.serve())
        _report(f"{LISTENING}{tcp.address}")
    else:
        assert path is not None
        server = await loop.create_unix_server(lambda: Connection(service), sock=_listener(path))
    _report(READY)
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
        await drained(tcp, drain_s)
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
