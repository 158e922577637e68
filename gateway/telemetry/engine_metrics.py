"""The engines' numbers in the Prometheus exposition format, as of the last time they were asked.

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

from gateway.telemetry.engine_reports import EngineReport
from local_engine.protocol.stats import BOUNDS, Histogram, Stats

ENGINE, MODEL = ("engine",), ("engine", "model")

GAUGES: tuple[tuple[str, str, str], ...] = (
    ("running_sequences", "running", "Answers in progress."),
    ("waiting_sequences", "waiting", "Answers that wait for their turn."),
    ("cache_blocks", "blocks_total", "Pages of the key/value cache."),
    ("cache_free_blocks", "blocks_free", "Pages that no answer holds."),
    ("cache_used_ratio", "cache_used_share", "Share of the pages that answers hold."),
    ("cache_bytes", "cache_bytes", "Memory of the pages."),
    ("weights_bytes", "weights_bytes", "Memory of the weights."),
    ("loaded_timestamp_seconds", "loaded_since", "When the model was ready, Unix time."),
)
"""(metric, what is read of Stats, meaning)."""

COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("steps", "steps", "Forward passes."),
    ("preemptions", "preemptions", "Running answers that lost their pages to others."),
    ("computed_tokens", "computed_tokens", "Tokens through the model."),
    ("prefix_cache_hit_tokens", "cached_tokens", "Prompt tokens that the prefix cache gave."),
    ("input_tokens", "num_input_tokens", "Tokens of the prompts that were begun."),
    ("output_tokens", "num_output_tokens", "Tokens generated."),
    ("draft_tokens", "total_draft_tokens", "Draft tokens proposed."),
    ("accepted_draft_tokens", "total_accepted_draft_tokens", "Draft tokens kept."),
    ("cache_new_blocks", "kv_cache_alloc_new_blocks", "Pages taken."),
    ("cache_reused_blocks", "kv_cache_reused_blocks", "Pages found in the prefix cache."),
)

HISTOGRAMS: tuple[tuple[str, str, str], ...] = (
    ("queue_seconds", "queue_time", "From an answer's arrival to its first step."),
    ("first_token_seconds", "time_to_first_token", "From an answer's arrival to its first token."),
    ("between_tokens_seconds", "time_between_tokens", "Between two tokens of an answer."),
    ("step_seconds", "step_time", "Length of a step."),
)


class EngineCollector(Collector):
    """Give it the engines' reports before each scrape; it asks nobody itself."""

    def __init__(self) -> None:
        self.reports: Sequence[EngineReport] = ()

    def describe(self) -> Iterable[Metric]:
        """Nothing: the names are not known to clash before there is a scrape."""
        return ()

    def collect(self) -> Iterable[Metric]:
        if not self.reports:
            return
        yield from self._of_processes()
        yield from self._of_models()

    def _of_processes(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("strowger_engine_up", "1 while the engine answers.", labels=ENGINE)
        restarts = CounterMetricFamily(
            "strowger_engine_restarts", "Starts after a crash.", labels=ENGINE
        )
        uptime = GaugeMetricFamily(
            "strowger_engine_uptime_seconds", "Of the engine's process now.", labels=ENGINE
        )
        memory = GaugeMetricFamily(
            "strowger_engine_resident_bytes", "Memory of the engine's process.", labels=ENGINE
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
    """Cumulative, as Prometheus wants them."""
    below = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), filled.counts, strict=True):
        below += count
        buckets.append((bound, float(below)))
    return buckets


def _finished(models: Sequence[tuple[list[str], Stats]]) -> Metric:
    finished = CounterMetricFamily(
        "strowger_engine_finished",
        "Answers by how they ended.",
        labels=(*MODEL, "outcome"),
    )
    for labels, stats in models:
        for outcome, count in stats.finished.items():
            finished.add_metric([*labels, outcome], count)
    return finished
