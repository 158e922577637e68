"""`strowger serve`: bind the address, make the folder for sockets, and run the leader."""

import asyncio
import logging
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path

from gateway.code_on_disk import CodeChanged
from gateway.config.schema.config import Config
from gateway.listener_tls.watch import TlsWatch
from gateway.open_files import file_warnings, raise_limit
from gateway.processes.audit_events import recorded_run
from gateway.processes.listening_socket import listen
from gateway.recording.setup import import_running
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.logs import configure_logging, has_colours, line_style

_log = logging.getLogger("strowger")


def serve(
    config: Config,
    source: Path,
    read: Callable[[Callable[[str], None]], Config],
    warnings: Sequence[str] = (),
) -> None:
    """Serve until SIGTERM or SIGINT; return when everything is closed.

    source: the configuration file. read: reads it again for a reload and reports settings without
    effect through its argument. warnings: those reported by the first read.
    Raises InvalidConfig when the address cannot be bound and as _check_workers, SystemExit as _run.
    """
    configure_logging(config.logging)
    _check_workers(config)
    listener = listen(config.server.host, config.server.port)
    _log.info("serving %s on %s", source, _url(config, listener))
    for warning in (*warnings, *file_warnings(config, raise_limit())):
        _warn(warning)
    with (
        tempfile.TemporaryDirectory(prefix="strowger-") as folder,
        import_running(config) as records,
        recorded_run(records.audit, config, source),
    ):
        run_dir = Path(folder)
        tls = TlsWatch(config.server.tls)
        if config.server.workers > 1:
            # Imported late: the leader needs nothing of what serves requests.
            from gateway.processes.leader import run_leader

            _run(
                run_leader(
                    config,
                    source=source,
                    read=partial(read, _warn),
                    listener=listener,
                    run_dir=run_dir,
                    records=records,
                    tls=tls,
                )
            )
        else:
            from gateway.processes.single_process import run_single_process

            access_log = _access_log(config)
            try:
                _run(
                    run_single_process(
                        config,
                        source=source,
                        read=partial(read, _warn),
                        listener=listener,
                        run_dir=run_dir,
                        access_log=access_log,
                        records=records,
                        tls=tls,
                    )
                )
            finally:
                access_log.close()
    _log.info("stopped")


def _access_log(config: Config) -> AccessLog:
    style = line_style(config.logging, sys.stdout)
    return AccessLog(sys.stdout.buffer, style, colours=has_colours(sys.stdout))


def _check_workers(config: Config) -> None:
    """Raises InvalidConfig if workers cannot get the configuration."""
    if config.server.workers > 1:
        # Imported late: a single process sends no messages.
        from gateway.processes.messages import check_sendable

        check_sendable(config)


def _url(config: Config, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "http" if config.server.tls is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _warn(warning: str) -> None:
    _log.warning("%s", warning)


def _run(work: Coroutine[None, None, None]) -> None:
    """Raises SystemExit with status 1 when no worker is left, and none can be started."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            runner.run(work)
        except CodeChanged:
            raise SystemExit(1) from None


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """The event loop class on uvloop; `None`, asyncio's own, on Windows."""
    if sys.platform == "win32":
        return None
    from gateway.eventloop.loop import NamesLoop

    return NamesLoop
