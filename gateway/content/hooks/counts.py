"""What the guardrails of one process have found, as metrics, and how they failed, in the log."""

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.platform.clock import now

_log = logging.getLogger("strowger.guardrails")
_LOGGED_EVERY_S: Final = 60.0
_MOST_KINDS: Final = 1000
"""A hook can define exceptions at run time."""


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


class FailureLog:
    """Log the exceptions of guardrails; timeouts are only counted.

    Each kind of a guardrail's exceptions is logged once per minute, because a service that is down
    fails every request.
    """

    def __init__(self) -> None:
        self._logged: dict[tuple[str, type[BaseException]], tuple[float, int]] = {}
        """When each kind may be logged again, in the clock's seconds, and how many were not."""

    def add(self, name: str, cause: BaseException | None) -> None:
        """name: of the guardrail. cause: the exception; `None` of a timeout."""
        if cause is None:
            return
        kind, at = (name, type(cause)), now()
        again_at, unlogged = self._logged.get(kind, (at, 0))
        if at < again_at:
            self._logged[kind] = again_at, unlogged + 1
            return
        if len(self._logged) >= _MOST_KINDS:
            self._logged.clear()
        self._logged[kind] = at + _LOGGED_EVERY_S, 0
        more = f", and {unlogged} times like this since the last log" if unlogged else ""
        _log.error("guardrail %s failed%s", name, more, exc_info=cause)
