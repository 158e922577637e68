"""Traces reach a collector over the wire, decoded with OpenTelemetry's own messages."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.semconv import schemas
from opentelemetry.semconv._incubating.attributes import (
    error_attributes,
    gen_ai_attributes,
    http_attributes,
    process_attributes,
    service_attributes,
    url_attributes,
)
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from strowger_gateway.gateway.observability.otlp.resource import own_resource
from strowger_gateway.gateway.observability.tracing import conventions
from strowger_gateway.gateway.observability.tracing.part import TracingSide
from strowger_gateway.gateway.observability.tracing.span_message import attribute, span
from strowger_gateway.gateway.platform.trace_context import join_trace
from tests.gateway.serving import Serving, serving

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ANSWER = msgspec.json.encode(
    {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hello"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
)


def in_a_loop(test: Callable[[Path], Coroutine[None, None, None]]) -> Callable[[Path], None]:
    """Run an asynchronous test."""

    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    return run


class Server:
    """Answers every request alike, and keeps what it received."""

    def __init__(self, status: int = 200, body: bytes = ANSWER, answers: bool = True) -> None:
        self.status, self.body, self.answers = status, body, answers
        self.port = 0
        self.heads: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.paths: list[str] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
                fields = dict(line.split(": ", 1) for line in lines if line)
                self.bodies.append(await reader.readexactly(int(fields["content-length"])))
                self.heads.append(fields)
                self.paths.append(first.split()[1])
                if not self.answers:
                    await reader.read(1)  # until the gateway hangs up
                    return
                head = f"HTTP/1.1 {self.status} X\r\ncontent-type: application/json\r\n"
                length = f"content-length: {len(self.body)}\r\n\r\n"
                writer.write(head.encode() + length.encode() + self.body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def spans(self) -> list[Span]:
        found: list[Span] = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                assert resource.schema_url == conventions.SCHEMA_URL
                named = {one.key: one.value.string_value for one in resource.resource.attributes}
                assert named["service.version"] == version("strowger-gateway")
                for scope in resource.scope_spans:
                    found += scope.spans
        return found


@asynccontextmanager
async def listening(*servers: Server) -> AsyncGenerator[None, None]:
    running = [await asyncio.start_server(one.handle, "127.0.0.1", 0) for one in servers]
    for one, server in zip(servers, running, strict=True):
        one.port = server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        for server in running:
            server.close()


def config(
    first: Server, second: Server, collector: Server, model: str = "", more: str = ""
) -> str:
    timeouts = "{connect_s: 20, first_token_s: 2, between_tokens_s: 1, total_s: 5}"
    return f"""
providers:
  - {{name: one, adapter: openai, base_url: "http://127.0.0.1:{first.port}/v1",
     api_key: sk-one, timeouts: {timeouts}}}
  - {{name: two, adapter: openai, base_url: "http://127.0.0.1:{second.port}/v1",
     api_key: sk-two, timeouts: {timeouts}}}
models:
  - name: chat
    policy: in_order
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    {model or "backends: [{provider: one, model: m-1}, {provider: two, model: m-2}]"}
telemetry: {{otlp: {{endpoint: "http://127.0.0.1:{collector.port}", {more}
  headers: {{x-token: abc}}}}}}
"""


async def ask(gateway: Serving, headers: dict[str, str] | None = None) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(
            f"{gateway.url}/v1/chat/completions",
            json={"model": "chat", "messages": [{"role": "user", "content": "hi"}]},
            headers=headers or {},
            timeout=60,
        )


def attributes(one: Span) -> dict[str, object]:
    return {
        pair.key: getattr(pair.value, str(pair.value.WhichOneof("value")))
        for pair in one.attributes
    }


Use = Callable[[Serving], Awaitable[None]]


async def traced(text: str, run_dir: Path, use: Use) -> None:
    async with serving(text, run_dir) as gateway:
        try:
            await use(gateway)
            await gateway.state.side(MirrorsSide).copies.wait_idle()
        finally:
            await gateway.state.side(TracingSide).close(2.0)


@in_a_loop
async def test_a_request_joins_its_callers_trace_and_passes_it_on(tmp_path: Path) -> None:
    one, two, collector = Server(), Server(), Server(body=b"")

    async def use(gateway: Serving) -> None:
        sent = {"traceparent": CALLER, "tracestate": "a=1", "baggage": "tier=gold"}
        assert (await ask(gateway, sent)).status_code == 200

    async with listening(one, two, collector):
        await traced(config(one, two, collector, more="sample: 0,"), tmp_path, use)

    server, attempt = collector.spans()
    assert collector.paths == ["/v1/traces"]
    assert collector.heads[0]["x-token"] == "abc"
    assert server.trace_id.hex() == attempt.trace_id.hex() == CALLER[3:35]
    assert server.parent_span_id.hex() == CALLER[36:52]
    assert attempt.parent_span_id == server.span_id
    assert one.heads[0]["traceparent"] == f"00-{CALLER[3:35]}-{attempt.span_id.hex()}-01"
    assert one.heads[0]["tracestate"] == server.trace_state == "a=1"
    assert "baggage" not in one.heads[0]
    assert (server.name, server.kind) == ("POST /v1/chat/completions", Span.SPAN_KIND_SERVER)
    assert (attempt.name, attempt.kind) == ("chat m-1", Span.SPAN_KIND_CLIENT)
    assert server.start_time_unix_nano <= attempt.start_time_unix_nano
    assert attempt.end_time_unix_nano <= server.end_time_unix_nano
    assert attributes(server)["baggage.tier"] == "gold"
    assert attributes(server)["http.response.status_code"] == 200
    found = attributes(attempt)
    assert found["gen_ai.provider.name"] == "openai"
    assert found["gen_ai.request.model"] == "m-1"
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (7, 3)


@in_a_loop
async def test_each_attempt_of_a_failover_has_its_span(tmp_path: Path) -> None:
    one, two, collector = Server(status=503, body=b"{}"), Server(), Server(body=b"")

    async def use(gateway: Serving) -> None:
        assert (await ask(gateway)).status_code == 200

    async with listening(one, two, collector):
        await traced(config(one, two, collector, more="sample: 1,"), tmp_path, use)

    server, *attempts = collector.spans()
    assert {one.parent_span_id for one in attempts} == {server.span_id}
    *failed, last = attempts
    assert failed
    for one_failed, head in zip(failed, one.heads, strict=True):
        assert attributes(one_failed)["strowger.attempt.role"] == "failed"
        assert one_failed.status.code == 2
        assert one_failed.span_id.hex() in head["traceparent"]
    assert attributes(last)["strowger.attempt.role"] == "served"
    assert last.span_id.hex() in two.heads[0]["traceparent"]
    assert server.status.code == 0


@in_a_loop
async def test_a_hedge_and_the_attempt_that_it_beats_have_spans(tmp_path: Path) -> None:
    one, two, collector = Server(answers=False), Server(), Server(body=b"")
    model = (
        "hedge_after_s: 0.05\n    "
        "backends: [{provider: one, model: m-1}, {provider: two, model: m-2}]"
    )

    async def use(gateway: Serving) -> None:
        assert (await ask(gateway)).status_code == 200

    async with listening(one, two, collector):
        await traced(config(one, two, collector, model, "sample: 1,"), tmp_path, use)

    _, late, hedge = collector.spans()
    assert attributes(late)["strowger.attempt.outcome"] == "lost"
    assert attributes(late)["strowger.attempt.role"] == "hedge"
    assert attributes(hedge)["strowger.attempt.role"] == "served"
    assert attributes(hedge)["strowger.attempt.hedge"] is True
    assert attributes(hedge)["gen_ai.usage.output_tokens"] == 3
    assert "gen_ai.usage.output_tokens" not in attributes(late)


@in_a_loop
async def test_a_mirrored_copy_is_a_child_of_its_request(tmp_path: Path) -> None:
    one, two, collector = Server(), Server(), Server(body=b"")
    model = "backends: [{provider: one, model: m-1}]\n    mirror: {backend: two/m-2, share: 1}"

    async def use(gateway: Serving) -> None:
        assert (await ask(gateway)).status_code == 200

    async with listening(one, two, collector):
        await traced(config(one, two, collector, model, "sample: 1,"), tmp_path, use)

    spans = {str(attributes(one).get("strowger.attempt.role")): one for one in collector.spans()}
    assert spans["mirror"].parent_span_id == spans["None"].span_id
    assert spans["mirror"].span_id.hex() in two.heads[0]["traceparent"]


@in_a_loop
async def test_what_is_not_sampled_is_not_exported_but_passed_on(tmp_path: Path) -> None:
    one, two, collector = Server(), Server(), Server(body=b"")

    async def use(gateway: Serving) -> None:
        await ask(gateway)
        await ask(gateway, {"traceparent": f"{CALLER[:-2]}00"})
        await ask(gateway)
        await ask(gateway, {"traceparent": CALLER})

    async with listening(one, two, collector):
        await traced(config(one, two, collector, more="sample: 0,"), tmp_path, use)

    sent = [head["traceparent"] for head in one.heads]
    assert [one[-2:] for one in sent] == ["00", "00", "00", "01"]
    assert [one.startswith(CALLER[:35]) for one in sent] == [False, True, False, True]
    assert {one.trace_id.hex() for one in collector.spans()} == {CALLER[3:35]}
    assert len(collector.spans()) == 2


@in_a_loop
async def test_an_unreachable_collector_costs_no_request_and_drops_are_counted(
    tmp_path: Path,
) -> None:
    one, two, collector = Server(), Server(), Server(body=b"")

    async def use(gateway: Serving) -> None:
        assert (await ask(gateway)).status_code == 200
        await gateway.state.side(TracingSide).close(0.2)
        counted = gateway.state.log.metrics.registry.get_sample_value
        assert counted("strowger_otlp_spans_total", {"outcome": "dropped"}) == 2
        assert counted("strowger_otlp_spans_total", {"outcome": "sent"}) == 0

    async with listening(collector):
        pass
    async with listening(one, two):
        await traced(config(one, two, collector, more="sample: 1,"), tmp_path, use)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        b"00-00000000000000000000000000000000-b7ad6b7169203331-01",
        b"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        b"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
    ],
)
def test_an_invalid_traceparent_begins_a_trace(sent: bytes) -> None:
    trace = join_trace([(b"tracestate", b"a=1")], sent, 2**56)

    assert trace.lines == b""
    assert trace.sampled is not None
    assert trace.sampled.parent_id == b""
    assert trace.trace_id.decode() not in CALLER


def test_a_traceparent_of_a_later_version_is_joined() -> None:
    trace = join_trace([], b"01" + CALLER[2:].encode() + b"-more", 0)

    assert trace.trace_id.decode() == CALLER[3:35]
    assert trace.sampled is not None


def test_names_are_those_of_the_pinned_conventions() -> None:
    attributes = (gen_ai_attributes, http_attributes, url_attributes, error_attributes)
    registries = (*attributes, gen_ai_metrics)
    known = {value for one in registries for value in vars(one).values() if isinstance(value, str)}
    values = {key: value for key, value in vars(conventions).items() if key.isupper()}
    used = {v for k, v in values.items() if isinstance(v, str) and k != "SCHEMA_URL"}
    # The package marks all of gen_ai.* as deprecated, because the conventions have moved to a
    # repository of their own, of which no package exists yet.
    providers = {one.value for one in vars(gen_ai_attributes)["GenAiProviderNameValues"]}
    operations = {one.value for one in vars(gen_ai_attributes)["GenAiOperationNameValues"]}

    assert used <= known
    assert set(conventions.PROVIDERS.values()) <= providers
    assert set(conventions.OPERATIONS.values()) <= operations
    assert conventions.SCHEMA_URL in {one.value for one in schemas.Schemas}


def test_the_resource_has_names_of_the_pinned_conventions() -> None:
    encoded = own_resource(conventions.SCHEMA_URL)
    resource = Resource.FromString(encoded.attributes)
    registries = (process_attributes, service_attributes)
    known = {value for one in registries for value in vars(one).values() if isinstance(value, str)}

    assert {pair.key for pair in resource.attributes} <= known
    assert encoded.schema_url == conventions.SCHEMA_URL


@given(
    st.text(max_size=300),
    st.one_of(st.text(max_size=1000), st.integers(0, 2**63 - 1), st.booleans(), st.floats()),
    st.floats(0, 4e9),
)
def test_what_is_encoded_opentelemetry_decodes(key: str, value: object, at: float) -> None:
    key = key.encode("utf-8", "replace").decode()
    assert isinstance(value, str | int | bool | float)
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode()
    encoded = span(b"t" * 16, b"2" * 16, b"", at, at + 1, attribute(key, value))
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.MergeFromString(encoded)

    (only,) = scope.spans
    (pair,) = only.attributes
    held = getattr(pair.value, str(pair.value.WhichOneof("value")))
    assert pair.key == key
    assert held == value or value != value
    assert type(held) is type(value)
    assert only.start_time_unix_nano == int(at * 1e9)
