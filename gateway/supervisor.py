"""The main process: sockets, signals, engines, the server, and a shutdown that loses nothing."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import uvicorn

from gateway.app import build_app
from gateway.asgi.coalescing import CoalescingHttp
from gateway.config.model import Config
from gateway.runtime import Runtime
from gateway.state import Gateway
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.logs import configure_logging, line_style
from schemas.errors import InvalidConfig

_log = logging.getLogger("strowger")
_BACKLOG = 2048


class _Server(uvicorn.Server):
    """uvicorn without its signal handling: ours drains first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def serve(config: Config, source: str) -> None:
    """Serve until SIGTERM or SIGINT; returns when everything is closed.

    Raises InvalidConfig when the address cannot be bound.
    """
    style = line_style(config.logging)
    configure_logging(config.logging, style)
    listener = _bind(config.server.host, config.server.port)
    with tempfile.TemporaryDirectory(prefix="strowger-") as run_dir:
        access_log = AccessLog(sys.stdout.buffer, style)
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(_serve(config, source, listener, Path(run_dir), access_log))
        finally:
            access_log.close()


async def _serve(
    config: Config, source: str, listener: socket.socket, run_dir: Path, access_log: AccessLog
) -> None:
    runtime = Runtime(config, run_dir=run_dir)
    gateway = Gateway(runtime, access_log)
    server = _Server(
        uvicorn.Config(
            build_app(gateway),
            http=CoalescingHttp,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=75,
        )
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop_or_quit, number, stop, server)
    host, port = listener.getsockname()[:2]
    _log.info("serving %s on http://%s:%d", source, f"[{host}]" if ":" in host else host, port)
    starting = asyncio.create_task(_start(runtime))
    _settle_memory()
    draining = asyncio.create_task(_drain_when(stop, gateway, server))
    try:
        await server.serve(sockets=[listener])
    finally:
        for task in (starting, draining):
            task.cancel()
        await asyncio.gather(starting, draining, return_exceptions=True)
        await runtime.close()
        gateway.write_books()
    _log.info("stopped")


async def _start(runtime: Runtime) -> None:
    """Start the engines and say when they are warm; remote providers are served meanwhile."""
    await runtime.start()
    if await runtime.wait_ready():
        _log.info("ready")
        return
    for name, engine in runtime.engines.items():
        if not engine.ready:
            _log.error("the engine of provider %s is %s", name, engine.status)


def _stop_or_quit(number: int, stop: asyncio.Event, server: uvicorn.Server) -> None:
    """The first signal drains; a second Ctrl-C does not wait."""
    if stop.is_set() and number == signal.SIGINT:
        server.force_exit = True
        server.should_exit = True
    stop.set()


async def _drain_when(stop: asyncio.Event, gateway: Gateway, server: uvicorn.Server) -> None:
    """SIGTERM: not ready, still serving; then refusing; closed with the last stream."""
    await stop.wait()
    settings = gateway.runtime.config.server
    gateway.draining = True
    _log.info("draining: not ready; refusing requests in %g s", settings.drain_delay_s)
    await asyncio.sleep(settings.drain_delay_s)
    gateway.refuse()
    try:
        await asyncio.wait_for(gateway.idle.wait(), settings.drain_timeout_s)
    except TimeoutError:
        _log.warning("%d requests outlasted drain_timeout_s and are cut", gateway.in_flight)
    server.should_exit = True


def _settle_memory() -> None:
    """What start-up made stays: no collection looks at it again, and young ones come less often.

    A request makes about a hundred containers and no cycles, so the default threshold of 700
    would run the collector every few requests, for nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as exc:
        listener.close()
        raise InvalidConfig(
            (f"server: cannot listen on {host}:{port}: {exc.strerror}; set server.port or --port",)
        ) from exc
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.Loop
