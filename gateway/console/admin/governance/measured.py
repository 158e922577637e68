"""What the leader's metrics say of limits now, for the page."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.config.schema.limits import Limit
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.limits.metrics import QUANTITIES
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import MetricFamilies, merge

_GAUGES: Final = {
    f"strowger_limit_{name}_{unit}": (name, quantity)
    for name in ("allowed", "used")
    for quantity, unit in zip(
        QUANTITIES, ("requests", "tokens", "concurrent_requests"), strict=True
    )
}
"""What each gauge shows, and of which quantity."""


class LimitState(Struct, frozen=True, kw_only=True):
    """One quantity of one limit and subject.

    per: its period. refused: requests since the start, of all subjects.
    """

    name: str
    subject: str
    quantity: str
    per: str
    allowed: float
    used: float
    refused: float


async def limit_states(gateway: Gateway) -> list[LimitState]:
    """The limits in the configuration's order, the fullest subject first. Raises Unavailable."""
    families = merge((gateway.processes.counted(), *await gateway.processes.peers.counted()))
    found, refused = _gauges(families), _refused(families)
    limits = {limit.name: limit for limit in gateway.side(KeysSide).rules.limits()}
    states = [
        LimitState(
            name=name,
            subject=subject,
            quantity=quantity,
            per="" if quantity == "concurrent" else limits[name].per,
            **values,
            refused=refused.get((name, quantity), 0.0),
        )
        for (name, subject, quantity), values in found.items()
        if name in limits
    ]
    order = {name: place for place, name in enumerate(limits)}
    return sorted(states, key=lambda one: (order[one.name], -one.used / one.allowed, one.subject))


def unused_limits(limits: Sequence[Limit], states: list[LimitState]) -> list[str]:
    """The limits that no request has needed yet."""
    seen = {one.name for one in states}
    return [limit.name for limit in limits if limit.name not in seen]


def _gauges(families: MetricFamilies) -> dict[tuple[str, str, str], dict[str, float]]:
    """What is used and allowed, by limit, subject and quantity."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for family in families:
        if (shown := _GAUGES.get(family.name)) is not None:
            name, quantity = shown
            for sample in family.samples:
                labels = dict(sample.labels)
                place = labels["limit"], labels["subject"], quantity
                found.setdefault(place, {})[name] = sample.value
    return {place: values for place, values in found.items() if len(values) == 2}


def _refused(families: MetricFamilies) -> dict[tuple[str, str], float]:
    """Requests refused by limit and quantity."""
    found: dict[tuple[str, str], float] = {}
    for family in families:
        for sample in family.samples:
            if sample.name == "strowger_limit_refused_requests_total":
                labels = dict(sample.labels)
                found[labels["limit"], labels["quantity"]] = sample.value
    return found
