"""`strowger models --probe`: send the cheapest request to every backend, and explain failures."""

import asyncio
import socket
import ssl
import tempfile
import time
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from rich.markup import escape
from rich.table import Table

from strowger_gateway.adapters.errors import MODEL_UNKNOWN
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.cli.config_loading import faults_shown
from strowger_gateway.gateway.cli.continuing import ContinuingProbe
from strowger_gateway.gateway.cli.tables import table_of
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.routing.health_checks.smallest_request import send, smallest_requests
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
)

CONCURRENCY = 8
CHAT_WORKS = "answers chat"


class ProbeResult(Struct, frozen=True, kw_only=True):
    """backend: PROVIDER/MODEL. fine: it can serve. words: the outcome as text."""

    backend: str
    fine: bool
    words: str
    ms: float | None = None


def probe(config: Config, *, timeout_s: float) -> tuple[ProbeResult, ...]:
    """Probe every remote backend except wildcards. Raises Faults for an invalid configuration."""
    with tempfile.TemporaryDirectory() as folder, faults_shown():
        make = partial(Runtime, run_dir=Path(folder))
        return asyncio.run(_probe_all(make(config), ContinuingProbe(config, make), timeout_s))


def report(found: tuple[ProbeResult, ...]) -> Table:
    table = table_of("BACKEND", "", "MS", "")
    for one in found:
        mark = "[green]ok[/]" if one.fine else "[red]fails[/]"
        ms = "" if one.ms is None else f"{one.ms:.0f}"
        table.add_row(escape(one.backend), mark, ms, escape(one.words))
    return table


async def _probe_all(
    runtime: Runtime, continuing: ContinuingProbe, timeout_s: float
) -> tuple[ProbeResult, ...]:
    known = {backend.name: key for key, backend in runtime.backends.items()}
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(key: str) -> ProbeResult:
        backend = runtime.backends[key]
        async with gate:
            found = await _probe(backend, runtime, timeout_s)
            if found.words != CHAT_WORKS:
                return found
            more = await continuing.words(key, backend, timeout_s)
            return replace(found, words=f"{CHAT_WORKS}, {more}") if more else found

    try:
        return tuple(await asyncio.gather(*(one(key) for key in known.values())))
    finally:
        await continuing.aclose()
        await runtime.close()


async def _probe(backend: Backend, runtime: Runtime, timeout_s: float) -> ProbeResult:
    provider = backend.name.partition("/")[0]
    if provider in runtime.engines:
        return ProbeResult(backend=backend.name, fine=True, words="local engine: started by serve")
    if backend.model == "*":
        words = "not probed: matches any model"
        return ProbeResult(backend=backend.name, fine=True, words=words)
    first: GatewayError | None = None
    for task, request in smallest_requests(backend):
        began = time.perf_counter()
        try:
            await send(backend, request, timeout_s)
        except GatewayError as exc:
            if isinstance(exc, UpstreamRejected) or exc.code == MODEL_UNKNOWN:
                first = first or exc
                continue
            fine = isinstance(exc, UpstreamBusy)
            return ProbeResult(backend=backend.name, fine=fine, words=error_text(exc))
        except TimeoutError:
            words = f"no response within {timeout_s:g} s"
            return ProbeResult(backend=backend.name, fine=False, words=words)
        ms = (time.perf_counter() - began) * 1e3
        return ProbeResult(backend=backend.name, fine=True, words=f"answers {task}", ms=ms)
    words = "supports no task" if first is None else error_text(first)
    return ProbeResult(backend=backend.name, fine=False, words=words)


def error_text(error: GatewayError) -> str:
    """Describe an error, and the setting that causes it."""
    detail = error.logged
    match error:
        case UpstreamRefused(code="upstream_model_unknown") | UpstreamRejected(status=404):
            return f"unknown model: {detail}"
        case UpstreamRefused():
            return f"the key is invalid or lacks permission: {detail}"
        case UpstreamRejected():
            return f"the request was rejected ({error.status}): {detail}"
        case UpstreamBusy():
            return f"the key works, but the provider is busy: {detail}"
        case UpstreamUnreachable():
            return _unreachable(error)
        case UpstreamTimeout():
            return f"timeout: {detail}"
        case UpstreamBroken():
            return f"the server does not speak this API; check base_url: {detail}"
        case _:
            return detail


def _unreachable(error: UpstreamUnreachable) -> str:
    match error.__cause__:
        case socket.gaierror():
            return f"DNS: {error.logged}; check base_url"
        case ssl.SSLCertVerificationError():
            return f"TLS: {error.logged}; see tls.ca_file"
        case ssl.SSLError():
            return f"TLS: {error.logged}; is base_url's scheme right?"
        case _:
            return f"connection: {error.logged}"
