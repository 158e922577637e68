"""Find an engine's gauges in its metrics, in Prometheus's text format.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from math import isfinite

from msgspec import Struct

from strowger_gateway.gateway.backends.gauges.readings import Reading

MOST_REQUESTS = 1e6
"""A larger gauge is a fault of the server's, and is ignored."""


class _Dialect(Struct, frozen=True, kw_only=True):
    """The names of one engine's gauges. cache_used: 0 to 1."""

    waiting: frozenset[str]
    running: frozenset[str]
    cache_used: frozenset[str] = frozenset()


DIALECTS = (
    # before vLLM, whose names our gateways offer as well, for the engines of their machine only
    _Dialect(
        waiting=frozenset({"strowger_engine_waiting_sequences"}),
        running=frozenset({"strowger_engine_running_sequences"}),
        cache_used=frozenset({"strowger_engine_cache_used_ratio"}),
    ),
    # https://docs.vllm.ai/en/latest/usage/metrics.html, and engines that offer the same names
    _Dialect(
        waiting=frozenset({"vllm:num_requests_waiting"}),
        running=frozenset({"vllm:num_requests_running"}),
        cache_used=frozenset({"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}),
    ),
    # https://docs.sglang.io/references/production_metrics.html
    _Dialect(
        waiting=frozenset({"sglang:num_queue_reqs"}),
        running=frozenset({"sglang:num_running_reqs"}),
        cache_used=frozenset({"sglang:token_usage"}),
    ),
    # MindIE, on its metricsPort:
    # https://www.hiascend.com/document/detail/zh/mindie/21RC1/mindieservice/servicedev/mindie_service0103.html
    _Dialect(
        waiting=frozenset({"num_requests_waiting"}), running=frozenset({"num_requests_running"})
    ),
    # https://github.com/huggingface/text-generation-inference/blob/main/docs/source/reference/metrics.md
    _Dialect(waiting=frozenset({"tgi_queue_size"}), running=frozenset({"tgi_batch_current_size"})),
)
"""In order: the first of which a server has a gauge of running requests."""

_KNOWN = frozenset[str]().union(*(one.waiting | one.running | one.cache_used for one in DIALECTS))


def reading_in(text: str) -> Reading | None:
    """Return the gauges, summed over models and ranks; `None` if there are none.

    The cache is as full as that of the fullest rank.
    """
    found: dict[str, list[float]] = {}
    for line in text.split("\n"):
        name = line[: _end_of_name(line)]
        if name in _KNOWN and (value := _value(line)) is not None:
            found.setdefault(name, []).append(value)
    for dialect in DIALECTS:
        running = _of(found, dialect.running)
        if running:
            used = _of(found, dialect.cache_used)
            return Reading(
                waiting=min(sum(_of(found, dialect.waiting)), MOST_REQUESTS),
                running=min(sum(running), MOST_REQUESTS),
                cache_used=min(max(used), 1.0) if used else None,
            )
    return None


def _of(found: dict[str, list[float]], names: frozenset[str]) -> list[float]:
    return [value for name in names for value in found.get(name, ())]


def _end_of_name(line: str) -> int:
    for place, character in enumerate(line):
        if character in "{ \t":
            return place
    return len(line)


def _value(line: str) -> float | None:
    """The value behind the labels; a time may follow. `None` unless it is a plain number >= 0."""
    fields = line[line.rfind("}") + 1 :].split() if "{" in line else line.split()[1:]
    try:
        value = float(fields[0])
    except (IndexError, ValueError):
        return None
    return value if isfinite(value) and 0 <= value <= MOST_REQUESTS else None
