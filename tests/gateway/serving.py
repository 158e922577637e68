"""A whole gateway on a loopback port inside the test's own event loop."""

import asyncio
import io
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.assembly.client_connections import limits_in_force
from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from strowger_gateway.gateway.http.app import build_app
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, AccessLog
from strowger_gateway.gateway.observability.telemetry.mirror_log_entry import MirrorLogEntry
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.server.asgi.client_timeouts import SlowClientReaper
from strowger_gateway.gateway.server.http1.server import HttpServer
from strowger_gateway.gateway.server.tls.files import read_files
from strowger_gateway.gateway.server.tls.handshakes import ListenerContext
from strowger_gateway.gateway.storage.sql.rows import Recorder
from tests.oracle.oracle import ORACLE

_lines = msgspec.json.Decoder(AccessLine)
_mirror_lines = msgspec.json.Decoder(MirrorLogEntry)
_MIRRORED = b'{"mirror_of"'
_STARTED = count()
"""The first gateway of a process builds its pages outside of any request's timeout: it takes longer
than all later ones."""


class Engines(Protocol):
    """Engines that run already."""

    def serving(self, config: Config) -> Mapping[str, EngineView]:
        """Those of a configuration, by provider."""
        ...


class _Read(Struct):
    """What was read of an access log. size: in bytes, up to the end of a line."""

    lines: list[AccessLine] = []
    size: int = 0


class Serving(Struct, frozen=True, kw_only=True, eq=False):
    """A running gateway. url: without the `/v1`. state: to look at, never to change."""

    url: str
    state: Gateway
    log: io.BytesIO
    _read: _Read = msgspec.field(default_factory=_Read)

    def access_lines(self) -> list[AccessLine]:
        """What the access log holds so far."""
        self.state.log.flush()
        self.state.log.access_log.flush()
        text = self.log.getvalue()
        end = text.rfind(b"\n") + 1
        lines = text[self._read.size : end].splitlines()
        self._read.lines += [_lines.decode(one) for one in lines if not one.startswith(_MIRRORED)]
        self._read.size = end
        return self._read.lines.copy()

    def mirror_lines(self) -> list[MirrorLogEntry]:
        """What it says of copies."""
        self.state.log.access_log.flush()
        lines = self.log.getvalue().splitlines()
        return [_mirror_lines.decode(line) for line in lines if line.startswith(_MIRRORED)]


CLOSE_S = 1.0
"""Seconds in which parts send and write what they have left."""


@asynccontextmanager
async def serving(
    config: str,
    run_dir: Path,
    env: Mapping[str, str] | None = None,
    seed: int | None = None,
    engine: Engines | None = None,
    recorder: Recorder | None = None,
    equip: Callable[[Gateway], None] | None = None,
    parts: Sequence[Part] = PARTS,
) -> AsyncGenerator[Serving, None]:
    """Serve a configuration, given as YAML, until the block ends.

    engine: where the configuration has one that runs already, instead of starting its own.
    equip: gives it what `strowger serve` gives it beside the configuration. parts: of the program.
    """
    log = io.BytesIO()
    access_log = AccessLog(log, "json")
    settings = read_config(config, source="config.yaml", env=env or {}, parts=parts)
    ORACLE.vendors.learn(settings.providers)
    engines = None if engine is None else engine.serving(settings)
    runtime = Runtime(settings, run_dir=run_dir, engines=engines)
    state = Gateway(runtime, access_log, recorder=recorder, seed=seed, parts=parts)
    if equip is not None:
        equip(state)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    tls = settings.server.tls
    server = HttpServer(
        build_app(state, at_once=next(_STARTED) == 0),
        tls=None if tls is None else ListenerContext(read_files(tls), state.log.metrics.registry),
        lifespan=False,
        limits=limits_in_force(lambda: state.runtime.config.server, state.shares),
    )
    await runtime.start()
    await state.parts.start()
    running = asyncio.create_task(server.serve(listener))
    running.add_done_callback(lambda _: server.listening.set())  # what fails to start waits no more
    reaper = SlowClientReaper(
        server.connections, lambda: state.runtime.config.server.client_timeout_s
    )
    watching = asyncio.create_task(reaper.watch())
    try:
        await server.listening.wait()
        if running.done():
            await running
        scheme = "http" if tls is None else "https"
        port = listener.getsockname()[1]
        yield Serving(url=f"{scheme}://127.0.0.1:{port}", state=state, log=log)
    finally:
        server.stop()
        await running
        watching.cancel()
        await state.side(MirrorsSide).copies.cancel()
        await state.generations.close()
        if state.runtime is not runtime:
            await runtime.close()
        await state.parts.close(CLOSE_S)
        if state.store is not None:
            state.store.close()
        access_log.close()


def one_model(base_url: str, more: str = "", model_more: str = "") -> str:
    """The smallest configuration: one OpenAI-dialect provider behind the model `chat`."""
    return f"""
providers:
  - name: remote
    adapter: openai
    base_url: {base_url}
    api_key: sk-secret-of-the-operator
    timeouts: {{connect_s: 20, first_token_s: 1, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    backends: [{{provider: remote, model: m-1}}]
{model_more}
{more}
"""
