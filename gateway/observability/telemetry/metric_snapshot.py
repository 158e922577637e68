"""Metrics as values that processes send to each other and add up."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from prometheus_client.core import Exemplar, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

LEAST = {
    "process_start_time_seconds",
    "strowger_backend_available",
    "strowger_backend_held",
    "strowger_backend_untried",
    "strowger_build_info",
    "strowger_experiment_paused",
    "strowger_identity_provider_up",
    "strowger_spool_available",
}
"""Gauges that are merged by minimum: true only if true in every process."""

_CREATED = "_created"
"""Suffix of samples with the time at which counting began, which only some counters have."""


class Example(Struct, frozen=True, array_like=True):
    """The trace of one observation. time: Unix seconds."""

    trace_id: str
    value: float
    time: float


class Sample(Struct, frozen=True, array_like=True):
    """labels: pairs of name and value. example: of a bucket, if requests are traced."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    example: Example | None = None


class Family(Struct, frozen=True, array_like=True):
    """All samples of one metric. kind: as Prometheus names it."""

    name: str
    meaning: str
    kind: str
    samples: tuple[Sample, ...]


MetricFamilies = tuple[Family, ...]


def snapshot(registry: CollectorRegistry) -> MetricFamilies:
    """Take a snapshot of a registry."""
    return tuple(
        Family(
            metric.name,
            metric.documentation,
            metric.type,
            tuple(
                Sample(
                    one.name,
                    tuple(one.labels.items()),
                    float(one.value),
                    None if one.exemplar is None else _example(one.exemplar),
                )
                for one in metric.samples
                if not one.name.endswith(_CREATED)
            ),
        )
        for metric in registry.collect()
    )


def merge(many: Iterable[MetricFamilies]) -> MetricFamilies:
    """Merge snapshots of several processes: sums, except for LEAST, and the newest examples."""
    first: dict[str, Family] = {}
    samples: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    examples: dict[tuple[str, tuple[tuple[str, str], ...]], Example] = {}
    for family in (family for one in many for family in one):
        first.setdefault(family.name, family)
        found = samples.setdefault(family.name, {})
        for sample in family.samples:
            key = (sample.name, sample.labels)
            known = examples.get(key)
            if sample.example is not None and (known is None or known.time < sample.example.time):
                examples[key] = sample.example
            if key not in found:
                found[key] = sample.value
            elif sample.name in LEAST:
                found[key] = min(found[key], sample.value)
            else:
                found[key] += sample.value
    return tuple(
        Family(
            family.name,
            family.meaning,
            family.kind,
            tuple(Sample(*key, value, examples.get(key)) for key, value in samples[name].items()),
        )
        for name, family in first.items()
    )


def without_gauges(one: MetricFamilies) -> MetricFamilies:
    """Keep what remains valid after its process has ended: everything except gauges."""
    return tuple(family for family in one if family.kind != "gauge")


def render(whole: MetricFamilies, accept: str = "") -> tuple[bytes, str]:
    """Render in the format that a scraper accepts; return it with its content type.

    accept: the header. OpenMetrics if it is asked for, which has examples; else Prometheus' text.
    https://prometheus.io/docs/instrumenting/content_negotiation/
    """
    encode, content_type = choose_encoder(accept)
    return encode(_Given(whole)), content_type


def _example(found: Exemplar) -> Example:
    return Example(found.labels.get("trace_id", ""), found.value, float(found.timestamp or 0.0))


def _exemplar(example: Example | None) -> Exemplar | None:
    if example is None:
        return None
    return Exemplar({"trace_id": example.trace_id}, example.value, example.time)


class _Given(CollectorRegistry):
    """A registry that collects fixed values."""

    def __init__(self, whole: Sequence[Family]) -> None:
        super().__init__()
        self._whole = whole

    def collect(self) -> Iterable[Metric]:
        for family in self._whole:
            metric = Metric(family.name, family.meaning, family.kind)
            for sample in family.samples:
                metric.add_sample(
                    sample.name,
                    dict(sample.labels),
                    sample.value,
                    exemplar=_exemplar(sample.example),
                )
            yield metric
