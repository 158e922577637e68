"""`strowger models --probe`: send the cheapest request to every backend, and explain failures."""

import asyncio
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

from msgspec import Struct
from rich.markup import escape
from rich.table import Table

from adapters.capabilities import offered
from adapters.errors import MODEL_UNKNOWN
from gateway.cli.config_loading import faults_shown
from gateway.cli.tables import table_of
from gateway.clock import now
from gateway.config.schema.config import Config
from gateway.routing.planning.route import Backend
from gateway.routing.request_record import new_request_id
from gateway.runtime import Runtime
from gateway.upstream.base import Call
from schemas.errors import (
    GatewayError,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from schemas.events import Event
from schemas.fields import Task
from schemas.messages import Message
from schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
)
from schemas.sampling import Sampling

CONCURRENCY = 8
ONE = Sampling(max_tokens=1)
CHEAPEST: dict[Task, Callable[[str], Request]] = {
    "chat": lambda model: ChatRequest(
        model=model, messages=(Message(role="user", content="Hi"),), sampling=ONE
    ),
    "completion": lambda model: CompletionRequest(model=model, prompts=("Hi",), sampling=ONE),
    "tokens": lambda model: TokenRequest(model=model, tokens=(1,), sampling=ONE),
    "embeddings": lambda model: EmbeddingsRequest(model=model, inputs=("Hi",)),
}
"""In order of preference: a model for one task rejects requests of others."""


class ProbeResult(Struct, frozen=True, kw_only=True):
    """backend: PROVIDER/MODEL. fine: it can serve. words: the outcome as text."""

    backend: str
    fine: bool
    words: str
    ms: float | None = None


def probe(config: Config, *, timeout_s: float) -> tuple[ProbeResult, ...]:
    """Probe every remote backend except wildcards. Raises Faults for an invalid configuration."""
    with tempfile.TemporaryDirectory() as folder, faults_shown():
        runtime = Runtime(config, run_dir=Path(folder))
        return asyncio.run(_probe_all(runtime, timeout_s))


def report(found: tuple[ProbeResult, ...]) -> Table:
    table = table_of("BACKEND", "", "MS", "")
    for one in found:
        mark = "[green]ok[/]" if one.fine else "[red]fails[/]"
        ms = "" if one.ms is None else f"{one.ms:.0f}"
        table.add_row(escape(one.backend), mark, ms, escape(one.words))
    return table


async def _probe_all(runtime: Runtime, timeout_s: float) -> tuple[ProbeResult, ...]:
    known = {backend.name: backend for backend in runtime.backends.values()}
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(backend: Backend) -> ProbeResult:
        async with gate:
            return await _probe(backend, runtime, timeout_s)

    try:
        return tuple(await asyncio.gather(*(one(backend) for backend in known.values())))
    finally:
        await runtime.close()


async def _probe(backend: Backend, runtime: Runtime, timeout_s: float) -> ProbeResult:
    provider = backend.name.partition("/")[0]
    if provider in runtime.engines:
        return ProbeResult(backend=backend.name, fine=True, words="local engine: started by serve")
    if backend.model == "*":
        words = "not probed: matches any model"
        return ProbeResult(backend=backend.name, fine=True, words=words)
    first: GatewayError | None = None
    for task, cheapest in CHEAPEST.items():
        if offered(backend.supports, task) is None:
            continue
        began = time.perf_counter()
        try:
            await _ask(backend, cheapest(backend.model), timeout_s)
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


async def _ask(backend: Backend, request: Request, timeout_s: float) -> None:
    call = Call(model=backend.model, deadline=now() + timeout_s, request_id=new_request_id())
    async with asyncio.timeout(timeout_s):
        if isinstance(request, EmbeddingsRequest):
            await backend.upstream.embed(request, call)
            return
        source: AsyncGenerator[list[Event], None] = backend.upstream.generate(request, call)
        async with aclosing(source):
            async for _ in source:
                pass


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
