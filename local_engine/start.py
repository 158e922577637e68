"""The start of an engine's process, before the imports that take seconds.

A wrong option, a configuration that cannot be read and a folder without a usable model are
reported at once, and a parent that is gone ends the process also while torch loads.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import FrameType

import msgspec
from msgspec import Struct

from strowger_gateway.local_engine.config import EngineConfig
from strowger_gateway.local_engine.listening.options import add_listening, listening_of
from strowger_gateway.local_engine.listening.tcp_listener import Listening
from strowger_gateway.local_engine.loading.checkpoint_files import check_files
from strowger_gateway.local_engine.loading.model_paths import check_folder, model_folder
from strowger_gateway.schemas.errors import InvalidConfig

UNSERVABLE = 2
"""Exit status: the configuration cannot be served."""


LONGEST_LINE = 4096
"""Characters of a status line; the parent reads at most 64 KiB."""


class StopSignals:
    """Stops the process on SIGTERM and on the end of stdin, also while the weights load.

    A terminal sends Ctrl-C, and SIGHUP when it is closed, to a parent and its children alike. They
    stop a process that is alone; a child's parent handles them.
    """

    def __init__(self, *, alone: bool = False) -> None:
        """alone: no parent handles a terminal's signals for it. `nohup` has SIGHUP ignored.

        SIGUSR2 is for the gateway; systemd may send it to all processes of the service.
        """
        self._stop: Callable[[], object] = lambda: os._exit(0)
        signal.signal(signal.SIGINT, self._on_signal if alone else signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_signal)
        if not alone:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        elif signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._on_signal)

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


class Start(Struct, frozen=True, kw_only=True, eq=False):
    """What to serve, and where.

    socket: the Unix socket's path, if there is no `listening`. drain_s: on TCP, time for requests
    to finish.
    """

    config: EngineConfig
    stop_signals: StopSignals
    socket: Path | None
    listening: Listening | None
    drain_s: float


def read_start(arguments: list[str]) -> Start:
    """Read the options and the configuration, and check the models' folders.

    Raises InvalidConfig for what cannot be served, and SystemExit for a wrong option.
    """
    parser = argparse.ArgumentParser(prog="local_engine")
    parser.add_argument("--socket", type=Path)
    parser.add_argument("--config", type=Path)
    add_listening(parser)
    options = parser.parse_args(arguments)
    if (options.socket is None) == (options.listen is None):
        parser.error("give --socket or --listen")
    stop_signals = StopSignals(alone=options.config is not None)
    listening = None if options.listen is None else listening_of(options)
    config = _configuration(options.config)
    if options.config is None:
        stop_signals.watch_stdin()
    check_models(config)
    return Start(
        config=config,
        stop_signals=stop_signals,
        socket=options.socket,
        listening=listening,
        drain_s=options.drain_s,
    )


def check_models(config: EngineConfig) -> None:
    """Check the folders of the models. Raises InvalidConfig for what their files show."""
    for model in config.models:
        check_folder(model.path)
        if not model.revision and os.path.isdir(folder := model_folder(model.path)):
            check_files(folder, model.task)


def report(line: str) -> None:
    """Write a line to the parent (stdout) and to stderr; ignore a parent that is gone."""
    line = " ".join(line[:LONGEST_LINE].splitlines())
    try:
        print(f"engine: {line}", file=sys.stderr, flush=True)
        os.write(sys.stdout.fileno(), line.encode(errors="replace") + b"\n")
    except BrokenPipeError:
        return


def _configuration(path: Path | None) -> EngineConfig:
    """Raises InvalidConfig."""
    try:
        text = sys.stdin.buffer.readline() if path is None else path.read_bytes()
        return msgspec.json.decode(text, type=EngineConfig)
    except (OSError, msgspec.DecodeError) as exc:
        raise InvalidConfig((f"the engine's configuration cannot be read: {exc}",)) from exc
