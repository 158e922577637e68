"""W3C Trace Context: which headers of a caller are joined, and which begin a new trace."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strowger_gateway.gateway.platform.trace_context import begin_traces, join_trace

CALLER = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def state_of(*values: bytes) -> str:
    headers = [(b"tracestate", value) for value in values]
    trace = join_trace(headers, CALLER, 0)
    assert trace.sampled is not None
    line = f"tracestate: {trace.sampled.state}\r\n" if trace.sampled.state else ""
    assert trace.lines == line.encode()
    return trace.sampled.state


@pytest.mark.parametrize(
    "value",
    [
        b"foo=1",
        b"foo=1,bar=2",
        b"foo=1 , bar=2",
        b"fw529a3039@dt=FfPx,rojo=00f067aa0ba902b7",
        b"a-_*/0=!#$%&'()*+-./:;<>?@[]^_`{|}~",
        b"foo=1,",
        b"k=" + b"v" * 256,
        b",".join(b"k%d=1" % place for place in range(32)),
    ],
)
def test_a_valid_tracestate_is_passed_on_as_it_is(value: bytes) -> None:
    assert state_of(value) == value.decode()


def test_several_tracestate_headers_are_one_list() -> None:
    assert state_of(b"foo=1", b"bar=2") == "foo=1,bar=2"


@pytest.mark.parametrize(
    "value",
    [
        b"foo",
        b"foo =1",
        b"FOO=1",
        b"foo=1=2",
        b"foo=",
        b"foo=\xc3\xa4",
        b"k=" + b"v" * 257,
        b"k" * 257 + b"=1",
        b",".join(b"k%d=1" % place for place in range(33)),
        b",".join(b"k%d=%b" % (place, b"v" * 60) for place in range(10)),
    ],
)
def test_an_invalid_tracestate_is_not_passed_on_and_the_trace_is_joined(value: bytes) -> None:
    trace = join_trace([(b"tracestate", value)], CALLER, 0)

    assert state_of(value) == ""
    assert trace.trace_id == CALLER[3:35]


def test_a_request_with_two_traceparents_begins_a_trace() -> None:
    headers = [(b"traceparent", CALLER), (b"traceparent", CALLER), (b"tracestate", b"a=1")]
    trace = join_trace(headers, CALLER, 0)

    assert trace.trace_id != CALLER[3:35]
    assert (trace.lines, trace.sampled) == (b"", None)


@given(st.integers(1, 2**128 - 1), st.sampled_from((b"00", b"01")))
@example(1, b"00")
@example(1, b"01")
@example(1 << 124, b"00")
@example((1 << 124) - 1, b"00")
def test_attempts_of_a_joined_trace_have_its_id_and_spans_of_their_own(
    trace_id: int, flags: bytes
) -> None:
    trace = join_trace([], b"00-%032x-b7ad6b7169203331-%b" % (trace_id, flags), 0)
    lines = [trace.start_attempt(0.0).lines for _ in range(3)]
    found = [re.fullmatch(rb"traceparent: 00-(\w{32})-(\w{16})-(\d\d)\r\n", one) for one in lines]

    parts = [one.groups() for one in found if one is not None]
    assert [(int(one, 16), flag) for one, _, flag in parts] == [(trace_id, flags)] * 3
    assert len({span for _, span, _ in parts}) == 3


@pytest.mark.parametrize("count", [1, 64])
@pytest.mark.parametrize("threshold", [0, 2**54, 2**56])
def test_traces_that_begin_here_have_valid_ids_of_their_own_and_are_sampled_by_them(
    count: int, threshold: int
) -> None:
    traces = begin_traces(threshold, count)
    ids: list[bytes] = []
    for trace in traces:
        sampled = int(trace.trace_id[-14:], 16) < threshold
        assert (trace.sampled is not None) is sampled
        first, second = trace.start_attempt(1.0), trace.start_attempt(2.0)
        for attempt in (first, second):
            pattern = rb"traceparent: 00-%b-([0-9a-f]{16})-%b\r\n" % (
                trace.trace_id,
                b"01" if sampled else b"00",
            )
            found = re.fullmatch(pattern, attempt.lines)
            assert found is not None
            assert attempt.span_id == (found[1] if sampled else b"")
            ids.append(found[1])
        ids.append(trace.trace_id)
        if trace.sampled is not None:
            ids.append(trace.sampled.span_id)
            assert [one.started for one in trace.sampled.attempts] == [1.0, 2.0]
            assert [len(one.span_id) for one in trace.sampled.attempts] == [16, 16]
    assert len(traces) == count
    assert len(set(ids)) == len(ids)
    assert all(int(one, 16) for one in ids)


def test_a_copys_attempts_are_none_of_the_requests() -> None:
    (trace,) = begin_traces(2**56, 1)
    copy = trace.of_mirror()
    assert copy.sampled is not None
    assert trace.sampled is not None
    lines = {one.start_attempt(0.0).lines for one in (copy, trace, copy, trace)}
    assert len(lines) == 4
    assert len(copy.sampled.attempts) == len(trace.sampled.attempts) == 2
