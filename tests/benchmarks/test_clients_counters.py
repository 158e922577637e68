"""The benchmark of clients adds up a counter's labels as /metrics shows them."""

from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.clients.__main__ import REQUESTS, WITHOUT_TASK, counter
from strowger_gateway.gateway.platform.fast_counters import FastCounter


def test_a_counter_is_the_sum_over_its_labels_and_not_that_of_a_similar_name() -> None:
    registry = CollectorRegistry()
    requests = FastCounter(
        REQUESTS.removesuffix("_total"), "All.", ("model", "status"), registry=registry
    )
    FastCounter(WITHOUT_TASK.removesuffix("_total"), "Some.", (), registry=registry).add((), 2)
    requests.add(("chat {a}", "200"), 3)
    requests.add(("chat {b}", "500"))
    metrics = generate_latest(registry).decode()

    assert counter(metrics, REQUESTS) == 4
    assert counter(metrics, WITHOUT_TASK) == 2
    assert counter(metrics, "strowger_absent_total") == 0
