"""Metrics as values: what one process has counted, sent to another and added up there."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import CollectorRegistry

LEAST = {
    "strowger_backend_available",
    "strowger_experiment_paused",
    "strowger_spool_available",
}
"""Gauges of which the whole has the least: what is true when it is true in every process."""

_CREATED = "_created"
"""The end of the names of samples that tell when counting began: the whole's is the earliest."""


class Sample(Struct, frozen=True, array_like=True):
    """labels: name and value in turn."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Family(Struct, frozen=True, array_like=True):
    """All samples of one metric. kind: as Prometheus names it."""

    name: str
    meaning: str
    kind: str
    samples: tuple[Sample, ...]


Families = tuple[Family, ...]


def families(registry: CollectorRegistry) -> Families:
    """What a registry holds now."""
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


def added(many: Iterable[Families]) -> Families:
    """The whole of what several processes counted: sums, but for LEAST."""
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


def counted(one: Families) -> Families:
    """What goes on counting when its process has ended: all but its gauges."""
    return tuple(family for family in one if family.kind != "gauge")


def text(whole: Families) -> bytes:
    """In Prometheus' text format."""
    return generate_latest(_Given(whole))


class _Given(CollectorRegistry):
    """A registry of values."""

    def __init__(self, whole: Sequence[Family]) -> None:
        super().__init__()
        self._whole = whole

    def collect(self) -> Iterable[Metric]:
        for family in self._whole:
            metric = Metric(family.name, family.meaning, family.kind)
            for sample in family.samples:
                metric.add_sample(sample.name, dict(sample.labels), sample.value)
            yield metric
