"""Prometheus metrics of the local engines, as of their last report.

Label values are names of providers and of their engines' models, from the configuration.
"""

from collections.abc import Iterable, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from strowger_gateway.gateway.observability.telemetry.engine_reports import EngineReport
from strowger_gateway.local_engine.protocol.stats import BOUNDS, Histogram, Stats

ENGINE, MODEL = ("engine",), ("engine", "model")

GAUGES: tuple[tuple[str, str, str], ...] = (
    ("running_sequences", "running", "Sequences that are being generated."),
    ("waiting_sequences", "waiting", "Sequences in the queue."),
    ("cache_blocks", "blocks_total", "Blocks of the key/value cache."),
    ("cache_free_blocks", "blocks_free", "Blocks that no sequence uses."),
    ("cache_used_ratio", "cache_used_share", "Share of the blocks that sequences use, 0 to 1."),
    ("cache_bytes", "cache_bytes", "Memory of the key/value cache."),
    ("weights_bytes", "weights_bytes", "Memory of the weights."),
    ("loaded_timestamp_seconds", "loaded_since", "Unix time at which the model was ready."),
)
"""(metric, attribute of Stats, help text)."""

COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("steps", "steps", "Forward passes."),
    ("preemptions", "preemptions", "Running sequences whose blocks were given to others."),
    ("computed_tokens", "computed_tokens", "Tokens computed by the model."),
    ("prefix_cache_hit_tokens", "cached_tokens", "Prompt tokens found in the prefix cache."),
    ("input_tokens", "num_input_tokens", "Tokens of started prompts."),
    ("output_tokens", "num_output_tokens", "Tokens generated."),
    ("draft_tokens", "total_draft_tokens", "Draft tokens proposed."),
    ("accepted_draft_tokens", "total_accepted_draft_tokens", "Draft tokens accepted."),
    ("cache_new_blocks", "kv_cache_alloc_new_blocks", "Blocks allocated."),
    ("cache_reused_blocks", "kv_cache_reused_blocks", "Blocks reused from the prefix cache."),
)

HISTOGRAMS: tuple[tuple[str, str, str], ...] = (
    ("queue_seconds", "queue_time", "From arrival to the first step of a sequence."),
    (
        "first_token_seconds",
        "time_to_first_token",
        "From arrival to the first token of a sequence.",
    ),
    ("between_tokens_seconds", "time_between_tokens", "Time between two tokens of a sequence."),
    ("step_seconds", "step_time", "Duration of a step."),
)


class EngineCollector(Collector):
    """Export `reports`, which the caller sets before each scrape."""

    def __init__(self) -> None:
        self.reports: Sequence[EngineReport] = ()

    def describe(self) -> Iterable[Metric]:
        """Return nothing, which turns off the registry's check for duplicate names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        if not self.reports:
            return
        yield from self._of_processes()
        yield from self._of_models()

    def _of_processes(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("strowger_engine_up", "1 while the engine responds.", labels=ENGINE)
        restarts = CounterMetricFamily(
            "strowger_engine_restarts", "Restarts after a crash.", labels=ENGINE
        )
        uptime = GaugeMetricFamily(
            "strowger_engine_uptime_seconds", "Uptime of the current engine process.", labels=ENGINE
        )
        memory = GaugeMetricFamily(
            "strowger_engine_resident_bytes", "Resident memory of the engine.", labels=ENGINE
        )
        for report in self.reports:
            up.add_metric([report.name], float(report.up))
            restarts.add_metric([report.name], report.restarts)
            uptime.add_metric([report.name], report.uptime_s)
            if report.up:
                memory.add_metric([report.name], report.machine.resident_bytes)
        yield from (up, restarts, uptime, memory)

    def _of_models(self) -> Iterable[Metric]:
        models = [
            ([report.name, model], stats)
            for report in self.reports
            for model, stats in report.models.items()
        ]
        for name, field, meaning in GAUGES:
            gauge = GaugeMetricFamily(f"strowger_engine_{name}", meaning, labels=MODEL)
            for labels, stats in models:
                gauge.add_metric(labels, getattr(stats, field))
            yield gauge
        for name, field, meaning in COUNTERS:
            counter = CounterMetricFamily(f"strowger_engine_{name}", meaning, labels=MODEL)
            for labels, stats in models:
                counter.add_metric(labels, getattr(stats, field))
            yield counter
        for name, field, meaning in HISTOGRAMS:
            histogram = HistogramMetricFamily(f"strowger_engine_{name}", meaning, labels=MODEL)
            for labels, stats in models:
                filled: Histogram = getattr(stats, field)
                histogram.add_metric(labels, _buckets(filled), filled.sum)
            yield histogram
        yield _finished(models)


def _buckets(filled: Histogram) -> list[tuple[str, float]]:
    """Return cumulative buckets, as Prometheus requires."""
    below = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), filled.counts, strict=True):
        below += count
        buckets.append((bound, float(below)))
    return buckets


def _finished(models: Sequence[tuple[list[str], Stats]]) -> Metric:
    finished = CounterMetricFamily(
        "strowger_engine_finished",
        "Finished sequences by outcome.",
        labels=(*MODEL, "outcome"),
    )
    for labels, stats in models:
        for outcome, count in stats.finished.items():
            finished.add_metric([*labels, outcome], count)
    return finished
