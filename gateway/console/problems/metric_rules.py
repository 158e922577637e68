"""Problems that the metrics of all processes show: the store, Redis, records, budgets, files.

The thresholds are those of the alerts in docs/operations.md, without their waiting times: the page
shows at once what an alert waits for.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.console.problems.problem import GatewayProblem
from strowger_gateway.gateway.console.problems.words import problem
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import MetricFamilies

SOON_S: Final = 14 * 86_400.0
"""Before its end, a certificate is a problem for so long."""

_FALSE: Final[Mapping[str, str]] = {
    "strowger_store_available": "store_down",
    "strowger_store_writable": "store_read_only",
    "strowger_redis_available": "redis_down",
    "strowger_spool_available": "spool_down",
    "strowger_importer_up": "importer_down",
    "strowger_issued_keys_current": "keys_stale",
    "strowger_budgets_current": "budgets_stale",
    "strowger_audit_file_available": "audit_file_down",
    "strowger_export_available": "export_failing",
    "strowger_identity_provider_up": "identity_provider_down",
}
"""Gauges that are 0 while there is a problem."""

_TRUE: Final[Mapping[str, str]] = {
    "strowger_configuration_refused": "configuration_rejected",
    "strowger_tls_files_refused": "certificate_rejected",
    "strowger_experiment_split_mismatch": "split_mismatch",
    "strowger_experiment_paused": "experiment_paused",
}
"""Gauges that are not 0 while there is a problem."""

_ABOVE: Final[Mapping[str, tuple[str, float, str]]] = {
    "strowger_import_lag_seconds": ("import_late", 60.0, "seconds"),
    "strowger_audit_lag_seconds": ("audit_late", 300.0, "seconds"),
    "strowger_gateways_differing": ("configuration_differs", 0.0, "count"),
    "strowger_budget_alerts_waiting": ("alerts_waiting", 0.0, "count"),
}
"""Gauges that are a problem above a value, which the sentence names."""

COUNTERS: Final[Mapping[str, str]] = {
    "strowger_records_lost_total": "records_lost",
    "strowger_audit_events_lost_total": "audit_lost",
    "strowger_worker_restarts_total": "workers_exited",
    "strowger_internal_errors_total": "internal_errors",
}
"""Counters that are a problem for a while after they have grown."""


class CounterTotals(Struct, frozen=True, kw_only=True):
    """The values of COUNTERS at one time, Unix seconds, summed over their labels."""

    time: float
    values: Mapping[str, float]


def totals_of(families: MetricFamilies, at: float) -> CounterTotals:
    found = dict.fromkeys(COUNTERS, 0.0)
    for family in families:
        for sample in family.samples:
            if sample.name in found:
                found[sample.name] += sample.value
    return CounterTotals(time=at, values=found)


def grown(before: CounterTotals | None, now: CounterTotals) -> Iterator[GatewayProblem]:
    """Problems of counters. before: some minutes ago, or at the start."""
    if before is None:
        return
    for name, kind in COUNTERS.items():
        more = now.values.get(name, 0.0) - before.values.get(name, 0.0)
        if more > 0:
            yield problem(kind, count=f"{more:,.0f}")


def metric_problems(families: MetricFamilies, at: float) -> Iterator[GatewayProblem]:
    """Problems of gauges. at: Unix seconds."""
    for family in families:
        for sample in family.samples:
            labels = [value for _, value in sample.labels]
            name = labels[0] if labels else ""
            value = sample.value
            if sample.name in _FALSE and value == 0:
                yield problem(_FALSE[sample.name], subject=name, name=name)
            elif sample.name in _TRUE and value:
                yield problem(_TRUE[sample.name], subject=name, name=name)
            elif sample.name in _ABOVE:
                kind, least, label = _ABOVE[sample.name]
                if value > least:
                    text = f"{value:,.0f}"
                    yield (
                        problem(kind, subject=name, seconds=text)
                        if label == "seconds"
                        else problem(kind, subject=name, count=text)
                    )
            elif sample.name == "strowger_tls_certificate_expiry_timestamp_seconds":
                yield from _certificate(name, value - at)
    for unit in ("usd", "tokens"):
        yield from _full(
            families,
            "budget_spent",
            f"strowger_budget_limit_{unit}",
            (f"strowger_budget_spent_{unit}", f"strowger_budget_reserved_{unit}"),
        )
    for unit in ("requests", "tokens", "concurrent_requests"):
        used = (f"strowger_limit_used_{unit}",)
        yield from _full(families, "limit_full", f"strowger_limit_allowed_{unit}", used)


def _certificate(name: str, left_s: float) -> Iterator[GatewayProblem]:
    if left_s <= 0:
        yield problem("certificate_expired", subject=name, name=name)
    elif left_s < SOON_S:
        yield problem("certificate_expires", subject=name, name=name, days=f"{left_s / 86_400:.0f}")


def _full(
    families: MetricFamilies, kind: str, allowed: str, used: tuple[str, ...]
) -> Iterator[GatewayProblem]:
    """One problem for each budget or limit that is used up, with the number of its subjects."""
    most: dict[tuple[tuple[str, str], ...], float] = {}
    spent: dict[tuple[tuple[str, str], ...], float] = {}
    for family in families:
        for sample in family.samples:
            if sample.name == allowed:
                most[sample.labels] = sample.value
            elif sample.name in used:
                spent[sample.labels] = spent.get(sample.labels, 0.0) + sample.value
    subjects: dict[str, set[str]] = {}
    full: dict[str, set[str]] = {}
    for labels, limit in most.items():
        given = dict(labels)
        name, subject = labels[0][1], given.get("subject", "")
        subjects.setdefault(name, set()).add(subject)
        if limit > 0 and spent.get(labels, 0.0) >= limit:
            full.setdefault(name, set()).add(subject)
    for name, those in full.items():
        yield problem(
            kind,
            subject=name,
            name=name,
            count=f"{len(those):,}",
            all=f"{len(subjects[name]):,}",
        )
