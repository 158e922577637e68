"""Metrics as values that processes send to each other and add up."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import CollectorRegistry

LEAST = {
    "strowger_backend_available",
    "strowger_backend_held",
    "strowger_backend_untried",
    "strowger_experiment_paused",
    "strowger_identity_provider_up",
    "strowger_spool_available",
}
"""Gauges that are merged by minimum: true only if true in every process."""

_CREATED = "_created"
"""Suffix of samples with the time at which counting began; merged by minimum."""


class Sample(Struct, frozen=True, array_like=True):
    """labels: pairs of name and value."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


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
                Sample(one.name, tuple(one.labels.items()), float(one.value))
                for one in metric.samples
            ),
        )
        for metric in registry.collect()
    )


def merge(many: Iterable[MetricFamilies]) -> MetricFamilies:
    """Merge snapshots of several processes: sums, except for LEAST and creation times."""
    first: dict[str, Family] = {}
    samples: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for family in (family for one in many for family in one):
        first.setdefault(family.name, family)
        found = samples.setdefault(family.name, {})
        for sample in family.samples:
            key = (sample.name, sample.labels)
            if key not in found:
                found[key] = sample.value
            elif sample.name in LEAST or sample.name.endswith(_CREATED):
                found[key] = min(found[key], sample.value)
            else:
                found[key] += sample.value
    return tuple(
        Family(
            family.name,
            family.meaning,
            family.kind,
            tuple(Sample(*key, value) for key, value in samples[name].items()),
        )
        for name, family in first.items()
    )


def without_gauges(one: MetricFamilies) -> MetricFamilies:
    """Keep what remains valid after its process has ended: everything except gauges."""
    return tuple(family for family in one if family.kind != "gauge")


def render(whole: MetricFamilies) -> bytes:
    """Render in Prometheus' text format."""
    return generate_latest(_Given(whole))


class _Given(CollectorRegistry):
    """A registry that collects fixed values."""

    def __init__(self, whole: Sequence[Family]) -> None:
        super().__init__()
        self._whole = whole

    def collect(self) -> Iterable[Metric]:
        for family in self._whole:
            metric = Metric(family.name, family.meaning, family.kind)
            for sample in family.samples:
                metric.add_sample(sample.name, dict(sample.labels), sample.value)
            yield metric
