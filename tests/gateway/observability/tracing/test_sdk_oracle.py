"""The OpenTelemetry SDK as the oracle: as the caller, as the backend, and as the maker of spans."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from strowger_gateway.gateway.observability.otlp.protobuf import key_value, part
from strowger_gateway.gateway.observability.tracing.part import TracingSide
from strowger_gateway.gateway.observability.tracing.span_message import (
    CLIENT,
    SERVER,
    CountAttribute,
    attribute,
    constant_fields,
    event,
    span,
    text_attribute,
    trace_state,
)
from tests.gateway.observability.otlp.fake_collector import otlp_collector
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
KINDS = {SERVER: SpanKind.SERVER, CLIENT: SpanKind.CLIENT}
propagator = TraceContextTextMapPropagator()


class Instrumented:
    """A service that the SDK instruments. spans: what it has recorded."""

    def __init__(self, sampler: Sampler) -> None:
        self._exporter = InMemorySpanExporter()
        tracers = TracerProvider(sampler=sampler, resource=Resource({"service.name": "x"}))
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = tracers.get_tracer("x")

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    async def serve(self, request: Received, answer: Answer) -> None:
        """A provider's behaviour: a server span around the answer."""
        parent = propagator.extract(request.headers)
        with self.tracer.start_as_current_span("serve", parent, SpanKind.SERVER):
            await answers(request, answer)


async def called(caller: Instrumented, backend: Instrumented, folder: Path) -> list[Span]:
    """Call the gateway within a span of the caller; the spans that the gateway exported."""
    async with provider(backend.serve) as server, otlp_collector() as collector:
        telemetry = f'telemetry: {{otlp: {{endpoint: "{collector.origin}", sample: 0}}}}'
        async with serving(one_model(server.base_url, telemetry), folder) as gateway:
            with caller.tracer.start_as_current_span("call", kind=SpanKind.CLIENT):
                headers: dict[str, str] = {}
                propagator.inject(headers)
                async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                    answer = await client.post("/v1/chat/completions", json=HELLO, headers=headers)
                assert answer.status_code == 200
            await gateway.state.side(TracingSide).close(20)
        return collector.spans()


async def test_a_caller_and_a_backend_that_the_sdk_instruments_are_one_tree(
    tmp_path: Path,
) -> None:
    caller, backend = Instrumented(ALWAYS_ON), Instrumented(ParentBased(ALWAYS_OFF))

    server, attempt = await called(caller, backend, tmp_path)

    (call,), (serve,) = caller.spans, backend.spans
    assert call.context is not None
    assert serve.context is not None
    assert serve.parent is not None
    trace_id = call.context.trace_id
    assert {int.from_bytes(one.trace_id) for one in (server, attempt)} == {trace_id}
    assert serve.context.trace_id == trace_id
    assert int.from_bytes(server.parent_span_id) == call.context.span_id
    assert attempt.parent_span_id == server.span_id
    assert serve.parent.span_id == int.from_bytes(attempt.span_id)
    assert call.start_time is not None
    assert serve.start_time is not None
    starts = [call.start_time, server.start_time_unix_nano, attempt.start_time_unix_nano]
    # The SDK reads the clock once per trace, the gateway once per batch: a millisecond of rounding.
    assert starts[0] <= starts[1] + 1_000_000
    assert starts[1] <= starts[2]


async def test_a_caller_that_does_not_sample_is_followed_by_all(tmp_path: Path) -> None:
    caller, backend = Instrumented(ALWAYS_OFF), Instrumented(ParentBased(ALWAYS_ON))

    assert await called(caller, backend, tmp_path) == []
    assert list(backend.spans) == []


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
numbers = st.integers(0, 2**63 - 1)
held = st.one_of(st.text(st.characters(codec="utf-8"), max_size=200), numbers, st.booleans())
attribute_sets = st.dictionaries(names, st.one_of(held, st.floats(allow_nan=False)), max_size=6)
times = st.floats(0, 4e9)
ids = st.integers(1, 2**64 - 1)


@given(
    trace_id=st.integers(1, 2**128 - 1),
    span_id=ids,
    parent_id=st.one_of(st.none(), ids),
    name=names,
    kind=st.sampled_from([SERVER, CLIENT]),
    start=times,
    end=times,
    attributes=attribute_sets,
    events=st.lists(st.tuples(names, times, attribute_sets), max_size=3),
    failed=st.booleans(),
    state=st.sampled_from(["", "a=1", "a=1,b=2"]),
)
def test_a_span_is_encoded_as_the_sdks_own_exporter_encodes_it(
    trace_id: int,
    span_id: int,
    parent_id: int | None,
    name: str,
    kind: int,
    start: float,
    end: float,
    attributes: Mapping[str, AttributeValue],
    events: list[tuple[str, float, Mapping[str, AttributeValue]]],
    failed: bool,
    state: str,
) -> None:
    members = TraceState([(one[0], one[2]) for one in state.split(",") if one])
    tracers = TracerProvider(sampler=ALWAYS_ON, resource=Resource({}))
    made = tracers.get_tracer("x").start_span(
        name,
        _parent(trace_id, parent_id, members, remote=kind == SERVER),
        KINDS[kind],
        attributes,
        start_time=int(start * 1e9),
    )
    for label, at, more in events:
        made.add_event(label, more, int(at * 1e9))
    if failed:
        made.set_status(Status(StatusCode.ERROR))
    made.end(int(end * 1e9))
    assert isinstance(made, ReadableSpan)
    official = encode_spans([made]).resource_spans[0].scope_spans[0].spans[0]
    # The SDK draws these itself, writes a status that is unset, and no sampled flag.
    official.trace_id, official.span_id = trace_id.to_bytes(16), span_id.to_bytes(8)
    official.flags |= TraceFlags.SAMPLED
    if not failed:
        official.ClearField("status")

    ours = Span.FromString(
        _message(
            span(
                trace_id.to_bytes(16),
                b"%016x" % span_id,
                b"" if parent_id is None else b"%016x" % parent_id,
                start,
                end,
                constant_fields(
                    name,
                    kind,
                    b"".join(_encoded(key, value) for key, value in attributes.items()),
                    failed=failed,
                    remote=parent_id is not None and kind == SERVER,
                ),
                [
                    *(
                        event(
                            label.encode(),
                            at,
                            [part(3, key_value(key, _plain(value))) for key, value in more.items()],
                        )
                        for label, at, more in events
                    ),
                    trace_state(state if parent_id is not None else ""),
                ],
            )
        )
    )

    assert ours == official


def _parent(trace_id: int, parent_id: int | None, state: TraceState, *, remote: bool) -> Context:
    if parent_id is None:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED)
    context = SpanContext(trace_id, parent_id, remote, flags, state)
    return set_span_in_context(NonRecordingSpan(context), Context())


def _encoded(key: str, value: AttributeValue) -> bytes:
    """With the faster functions where they apply: keys of at most 40 bytes."""
    plain = _plain(value)
    if isinstance(plain, bool | float) or len(key.encode()) > 40:
        return attribute(key, plain)
    return text_attribute(key, plain) if isinstance(plain, str) else CountAttribute(key).of(plain)


def _plain(value: AttributeValue) -> str | int | float | bool:
    assert isinstance(value, str | int | float | bool)
    return value


def _message(field: bytes) -> bytes:
    """The span without the tag and the length of its field."""
    at = 1
    while field[at] & 0x80:
        at += 1
    return field[at + 1 :]
