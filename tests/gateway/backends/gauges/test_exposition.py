"""The gauges of each engine are found in its metrics, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from strowger_gateway.gateway.backends.gauges.exposition import reading_in
from strowger_gateway.gateway.backends.gauges.readings import Reading

VLLM = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 7.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3-8B"} 5.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a } b"} 3.0 1700000000000
vllm:num_requests_waiting{engine="1",model_name="Qwen/Qwen3-8B"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 100.0
vllm:kv_cache_usage_perc{engine="0",model_name="Qwen/Qwen3-8B"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="Qwen/Qwen3-8B"} 0.75
"""
SGLANG = """sglang:num_running_reqs{model_name="m",tp_rank="0"} 4.0
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 2.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.5
"""
MINDIE = """# HELP num_requests_running Number of requests currently running on NPU.
# TYPE num_requests_running gauge
num_requests_running{model_name="llama2-7b"} 9
num_requests_waiting{model_name="llama2-7b"} 1
"""
OURS = """strowger_engine_running_sequences{engine="here",model="tiny"} 3.0
strowger_engine_waiting_sequences{engine="here",model="tiny"} 1.0
strowger_engine_cache_used_ratio{engine="here",model="tiny"} 0.1
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (VLLM, Reading(waiting=3, running=12, cache_used=0.75)),
        (SGLANG, Reading(waiting=2, running=4, cache_used=0.5)),
        (MINDIE, Reading(waiting=1, running=9)),
        (OURS, Reading(waiting=1, running=3, cache_used=0.1)),
        (OURS + VLLM, Reading(waiting=1, running=3, cache_used=0.1)),
        (VLLM + OURS, Reading(waiting=1, running=3, cache_used=0.1)),
        ("tgi_queue_size 2\ntgi_batch_current_size 8\n", Reading(waiting=2, running=8)),
    ],
)
def test_each_engine_has_its_names(text: str, found: Reading) -> None:
    assert reading_in(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>not found</html>",
        "vllm:num_requests_waiting 3",
        "vllm:num_requests_running NaN",
        "vllm:num_requests_running -1",
        "vllm:num_requests_running +Inf",
        "vllm:num_requests_running 1e300",
        "vllm:num_requests_running{",
        'vllm:num_requests_running{a="b"}',
        "vllm:num_requests_running",
    ],
)
def test_without_a_gauge_of_running_requests_nothing_is_known(text: str) -> None:
    assert reading_in(text) is None


@given(st.text(max_size=300))
def test_no_text_is_an_error(text: str) -> None:
    reading_in(text)
    reading_in("vllm:num_requests_running " + text)


@given(
    st.lists(st.tuples(st.text(max_size=20), st.integers(0, 1000)), unique_by=lambda one: one[0]),
    st.integers(0, 1000),
)
def test_what_prometheus_client_writes_is_read(
    running: list[tuple[str, int]], waiting: int
) -> None:
    registry = CollectorRegistry()
    Histogram("vllm:e2e_request_latency_seconds", "…", registry=registry).observe(1)
    gauge = Gauge("vllm:num_requests_running", "…", ("model_name",), registry=registry)
    for name, value in running:
        gauge.labels(name).set(value)
    Gauge("vllm:num_requests_waiting", "…", registry=registry).set(waiting)

    found = reading_in(generate_latest(registry).decode())

    expected = Reading(waiting=waiting, running=sum(value for _, value in running))
    assert found == (expected if running else None)
