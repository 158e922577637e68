"""Pause experiments that violate a harm limit, and log a sample ratio mismatch."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

from strowger_gateway.gateway.audit.event import Actor, AuditEvent
from strowger_gateway.gateway.audit.log import AuditLog, NoAudit
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.report_input import harm_metrics, report_input
from strowger_gateway.gateway.statistics.sample_ratio import (
    SampleRatio,
    sample_ratio_test,
)
from strowger_gateway.gateway.statistics.verdict import harm_verdicts
from strowger_gateway.gateway.storage.sql.base import Store

_log = logging.getLogger("strowger.experiments")
CHECK_INTERVAL_S = 5.0
"""Interval between checks."""

CLAIM = "harm limits of "
"""Prefix of the claim on an experiment: one of all gateways on the store checks it at a time."""

LATE = 0.9
"""Minimum age of the last claim for the next, as a part of the interval; timers vary a little."""


class HarmLimitMonitor:
    """Check the outcomes in the store, for all workers and gateways that use it.

    A check reads the sums of every unit, so gateways share the work: one that finds no recent claim
    on an experiment checks it. Two checks at once do no harm, because a pause is written once.

    mismatched: by experiment, whether the last check by this monitor found a sample ratio mismatch.
    pauses:     how often this monitor has paused each experiment because of a harm limit.
    """

    def __init__(
        self,
        store: Store,
        *,
        every_s: float = CHECK_INTERVAL_S,
        audit: AuditLog | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """audit: records each pause. clock: Unix seconds."""
        self._audit = NoAudit() if audit is None else audit
        self.mismatched: dict[str, bool] = {}
        self.pauses: Counter[str] = Counter()
        self._store = store
        self._every_s = every_s
        self._clock = clock
        self._alarmed: set[str] = set()

    def check(self, experiments: Sequence[Experiment]) -> tuple[str, ...]:
        """Pause every experiment that violates a harm limit; return their names.

        Blocks. Raises StoreUnavailable.
        """
        for name in self.mismatched.keys() - {one.name for one in experiments}:
            del self.mismatched[name]
        paused = self._store.pauses()
        broken: list[str] = []
        for experiment in experiments:
            claim = CLAIM + experiment.name
            if experiment.name in paused or not self._store.claim(
                claim, self._every_s * LATE, self._clock()
            ):
                continue
            self._check_split(experiment)
            epochs = self._store.epochs(experiment.name)
            if not experiment.harm_limits or (epochs and epochs[-1].paused):
                continue  # just resumed, and no request has been served since
            metrics = harm_metrics(experiment, self._store)
            case = report_input(experiment, self._store, metrics, split=False)
            violations = [
                harm_limit.sentence for harm_limit in harm_verdicts(case) if harm_limit.broken
            ]
            if violations:
                reason = "; ".join(violations)
                if self._store.pause(experiment.name, reason, self._clock()):
                    self.pauses[experiment.name] += 1
                    by = Actor(kind="harm_limit", name=experiment.name)
                    event = AuditEvent.by(
                        by, "experiment.pause", target=experiment.name, reason=reason
                    )
                    self._audit.record(event)
                broken.append(experiment.name)
        return tuple(broken)

    def _check_split(self, experiment: Experiment) -> None:
        split: SampleRatio = sample_ratio_test(self._store.counts(experiment.name))
        self.mismatched[experiment.name] = split.mismatch
        if split.mismatch and experiment.name not in self._alarmed:
            self._alarmed.add(experiment.name)
            _log.error(
                "experiment %s: SAMPLE RATIO MISMATCH: units are not split as the weights say "
                "(p = %.1g); do not trust its results",
                experiment.name,
                split.p,
            )
