"""The spans of a request with one attempt are made from templates, and equal the general ones."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.observability.tracing.spans import request_spans
from strowger_gateway.gateway.platform.trace_context import (
    RequestTrace,
    SampledRequest,
    begin_traces,
    join_trace,
)
from strowger_gateway.gateway.routing.request_record import (
    AttemptRecord,
    RequestRecord,
    new_request_id,
)
from strowger_gateway.schemas.events import Usage

SAMPLED = 2**56
ADAPTERS = {"far": "of-far"}
CALLER = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NAMES = st.sampled_from(["", "a", "100 % of %b", "模型/7b", "x" * 300])
PATHS = [
    ("/v1/chat/completions", "/v1/chat/completions"),
    ("/v1/{x:path}", "/v1/100%25"),
    ("/v1/{x:path}", "/v1/" + "x" * 5000),
]
COUNTS = st.none() | st.sampled_from([0, 1, 127, 128, 16_383, 16_384, 10**7])


@given(
    texts=st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES),
    paths=st.sampled_from(PATHS),
    joined=st.booleans(),
    status=st.sampled_from([200, 400, 499, 503]),
    cache=st.sampled_from(["", "miss", "hit"]),
    stream=st.booleans(),
    outcome=st.sampled_from(["ok", "cancelled", "timeout", ""]),
    hedge=st.booleans(),
    counts=st.none() | st.tuples(COUNTS, COUNTS, COUNTS, COUNTS),
    first=st.none() | st.floats(0, 9),
    times=st.tuples(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0, 2e9)),
)
def test_templates_give_the_spans_that_a_caller_with_a_tracestate_gets(
    texts: tuple[str, str, str, str, str],
    paths: tuple[str, str],
    joined: bool,
    status: int,
    cache: Literal["", "miss", "hit"],
    stream: bool,
    outcome: str,
    hedge: bool,
    counts: tuple[int | None, int | None, int | None, int | None] | None,
    first: float | None,
    times: tuple[float, float, float],
) -> None:
    started, ms, offset = times
    key, team, experiment, variant, error = texts
    entry = AttemptRecord(backend="far/m%-1", outcome=outcome, ms=ms, hedge=hedge)
    record = RequestRecord(request_id=new_request_id(), started=started, attempts=[entry])
    record.task, record.stream = "chat", stream
    record.first_content_at = None if first is None else started + first
    if counts is not None:
        prompt, completion, cached, reasoning = counts
        record.usage = Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=cached,
            reasoning_tokens=reasoning,
        )
    line = AccessLine(
        time=0.0,
        request_id=record.request_id,
        surface="openai",
        status=status,
        ms=ms,
        route="chat",
        key=key,
        team=team,
        experiment=experiment,
        variant=variant,
        error=error,
        cache=cache,
    )
    trace = join_trace([], CALLER, SAMPLED) if joined else begin_traces(SAMPLED)[0]
    sampled = _started(trace, started, paths)

    def spans() -> list[Span]:
        found = request_spans(record, line, trace, sampled, offset, started + 1.0, ADAPTERS)
        return list(ScopeSpans.FromString(b"".join(found)).spans)

    plain = spans()
    (path,) = [one.value.string_value for one in plain[0].attributes if one.key == "url.path"]
    assert path == paths[1][:1024]
    sampled.state = "vendor=1"
    general = spans()

    for one in general:
        assert one.trace_state == "vendor=1"
        one.ClearField("trace_state")
    assert plain == general
    assert [len(one.parent_span_id) for one in plain] == [8 * joined, 8]


def _started(trace: RequestTrace, at: float, paths: tuple[str, str]) -> SampledRequest:
    trace.start_attempt(at)
    assert trace.sampled is not None
    trace.sampled.route, trace.sampled.path = paths
    return trace.sampled
