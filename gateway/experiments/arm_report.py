"""Report the variants of an experiment: their shares, units, requests and fallbacks."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.statistics.sample_ratio import EpochCounts
from strowger_gateway.gateway.storage.sql.base import RequestCounts


class ArmReport(Struct, frozen=True, kw_only=True):
    """A variant. units: each once, where it first came to a comparison; before there is one, where
    it first came. fallback_share: part of its requests, 0 to 1.

    prompt: NAME@VERSION; "" for none.
    """

    name: str
    backend: str
    prompt: str = ""
    weight: float
    units: int
    requests: int
    fallbacks: int
    fallback_share: float


def arm_reports(
    experiment: Experiment, counts: Sequence[EpochCounts], answered: Sequence[RequestCounts]
) -> tuple[ArmReport, ...]:
    units: Counter[str] = Counter()
    for epoch in counts:
        for arm in epoch.arms:
            units[arm.name] += arm.units
    requests: Counter[str] = Counter()
    fallbacks: Counter[str] = Counter()
    for row in answered:
        requests[row.variant] += row.requests
        fallbacks[row.variant] += row.fallbacks
    return tuple(
        ArmReport(
            name=variant.name,
            backend=variant.backend,
            prompt=variant.prompt,
            weight=variant.weight,
            units=units[variant.name],
            requests=requests[variant.name],
            fallbacks=fallbacks[variant.name],
            fallback_share=fallbacks[variant.name] / max(requests[variant.name], 1),
        )
        for variant in experiment.variants
    )
