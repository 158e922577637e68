"""What the guardrails of one process have found, as metrics."""

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.content.hooks.hook_call import FailureLog


class GuardCounts:
    """findings: by guardrail, place and action. failures: by guardrail and reason.

    failure_log: of their exceptions.
    """

    def __init__(self) -> None:
        self.findings: Counter[tuple[str, str, str]] = Counter()
        self.failures: Counter[tuple[str, str]] = Counter()
        self.failure_log = FailureLog()


class GuardCollector(Collector):
    """Findings and failures of guardrails."""

    def __init__(self, counts: GuardCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        findings = CounterMetricFamily(
            "strowger_guardrail_findings",
            "Findings of guardrails, each rule once per request, by place and action.",
            labels=["guardrail", "place", "action"],
        )
        for labels, count in self._counts.findings.items():
            findings.add_metric(list(labels), count)
        yield findings
        failures = CounterMetricFamily(
            "strowger_guardrail_failures",
            "Calls of guardrails that failed, by reason (timeout, error).",
            labels=["guardrail", "reason"],
        )
        for labels, count in self._counts.failures.items():
            failures.add_metric(list(labels), count)
        yield failures
