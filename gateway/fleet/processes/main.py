"""`strowger serve`: bind the address, make the folder for sockets, and run the leader."""

import asyncio
import logging
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.coordination.probe_locks import ACCESS_LOG_LOCK, LogFileLock
from strowger_gateway.gateway.fleet.listening.listening_socket import (
    Listener,
    bind,
    place_of,
    url_of,
)
from strowger_gateway.gateway.fleet.listening.predecessor import Predecessor
from strowger_gateway.gateway.fleet.processes.audit_events import recorded_run
from strowger_gateway.gateway.observability.recording.setup import import_running
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from strowger_gateway.gateway.observability.telemetry.logs import (
    append_output,
    configure_logging,
    has_colours,
    line_style,
)
from strowger_gateway.gateway.platform.code_on_disk import CodeChanged
from strowger_gateway.gateway.server.open_files import file_warnings, raise_limit

_log = logging.getLogger("strowger")


def serve(
    config: Config,
    source: Path,
    read: Callable[[Callable[[str], None]], Config],
    warnings: Sequence[str] = (),
    given: Listener | None = None,
    predecessor: Predecessor | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; return when everything is closed.

    source: the configuration file. read: reads it again for a reload and reports settings without
    effect through its argument. warnings: those reported by the first read. given: the sockets of
    systemd. predecessor: the gateway that this one takes over from.
    Raises InvalidConfig when the address cannot be bound and as _check_workers, SystemExit as _run.
    """
    append_output()
    configure_logging(config.logging)
    _check_workers(config)
    listener = given or _listener(config, predecessor)
    _log.info("serving %s on %s", source, ", ".join(_urls(config, listener)))
    for warning in (*warnings, *file_warnings(config, raise_limit())):
        _warn(warning)
    with (
        tempfile.TemporaryDirectory(prefix="strowger-") as folder,
        import_running(config) as records,
        recorded_run(records.audit, config, source),
    ):
        # Imported late: workers import this module, too, and launch nothing.
        from strowger_gateway.gateway.fleet.processes.launch import Launch

        run_dir = Path(folder)
        if predecessor is not None:
            predecessor.share_lock(run_dir / ACCESS_LOG_LOCK)
        launch = Launch(
            source=source,
            read=partial(read, _warn),
            listener=listener,
            run_dir=run_dir,
            records=records,
            predecessor=predecessor,
        )
        if config.server.workers > 1:
            # Imported late: the leader needs nothing of what serves requests.
            from strowger_gateway.gateway.fleet.processes.leader import run_leader

            _run(run_leader(config, launch))
        else:
            from strowger_gateway.gateway.fleet.processes.single_process import run_single_process

            access_log = open_access_log(config, run_dir)
            try:
                _run(run_single_process(config, launch, access_log))
            finally:
                access_log.close()
    _log.info("stopped")


def open_access_log(config: Config, run_dir: Path) -> AccessLog:
    """Return the access log on stdout. Its lock is in `run_dir`: processes take turns."""
    style = line_style(config.logging, sys.stdout)
    return AccessLog(
        sys.stdout.buffer,
        style,
        colours=has_colours(sys.stdout),
        turn=LogFileLock(run_dir / ACCESS_LOG_LOCK),
    )


def _listener(config: Config, predecessor: Predecessor | None) -> Listener:
    """Return the sockets of another gateway, or new ones. Raises InvalidConfig."""
    host, port = config.server.host, config.server.port
    taken = None if predecessor is None else predecessor.take(place_of(host, port))
    return taken or bind(host, port)


def _check_workers(config: Config) -> None:
    """Raises InvalidConfig if workers cannot get the configuration."""
    if config.server.workers > 1:
        # Imported late: a single process sends no messages.
        from strowger_gateway.gateway.fleet.processes.messages import check_sendable

        check_sendable(config)


def _urls(config: Config, listener: Listener) -> Iterator[str]:
    scheme = "http" if config.server.tls is None else "https"
    for one in listener.sockets:
        yield url_of(one, scheme)


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
    from strowger_gateway.gateway.platform.eventloop.loop import NamesLoop

    return NamesLoop
