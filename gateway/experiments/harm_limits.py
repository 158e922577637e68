"""Pause experiments whose variants do harm, and log a sample ratio mismatch.

A variant does harm if its circuit is open (`guarding.circuit`), if a harm limit is broken at a look
(`guarding.harm_looks`), or if the bound of a harm limit is above it (`statistics.verdict`).
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from strowger_gateway.gateway.audit.event import Actor, AuditEvent
from strowger_gateway.gateway.audit.log import AuditLog, NoAudit
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.guarding.guard_rows import note_stop, watch
from strowger_gateway.gateway.experiments.guarding.harm_looks import broken_limits
from strowger_gateway.gateway.experiments.report_input import (
    report_input,
    resumed,
)
from strowger_gateway.gateway.experiments.trust.value_ranges import ranged_harm_metrics
from strowger_gateway.gateway.statistics.looks import alpha
from strowger_gateway.gateway.statistics.sample_ratio import (
    SampleRatio,
    sample_ratio_test,
)
from strowger_gateway.gateway.statistics.verdict import harm_verdicts
from strowger_gateway.gateway.storage.sql.base import Epoch, Store

_log = logging.getLogger("strowger.experiments")
CHECK_INTERVAL_S = 5.0
"""Interval between checks."""

CLAIM = "harm limits of "
"""Prefix of the claim on an experiment: one of all gateways on the store checks it at a time."""

LATE = 0.9
"""Minimum age of the last claim for the next, as a part of the interval; timers vary a little."""


class _Violations(Struct, frozen=True, kw_only=True):
    """Why an experiment has to be paused, in words.

    bounds: harm limits whose bound is broken. guarded: open circuits, and limits broken at a look.
    """

    bounds: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        return (*self.bounds, *self.guarded)


class HarmLimitMonitor:
    """Check the outcomes in the store, for all workers and gateways that use it.

    A check reads the sums of every unit, so gateways share the work: one that finds no recent claim
    on an experiment checks it. Two checks at once do no harm, because a pause is written once, and
    a look is spent once.

    mismatched: by experiment, whether the last check by this monitor found a sample ratio mismatch.
    pauses:     how often this monitor has paused each experiment.
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
        """Pause every experiment with a variant that does harm; return their names.

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
            if not epochs or epochs[-1].paused:
                continue  # just resumed, and no request has been served since
            found = self._violations(experiment, epochs)
            if found.reasons:
                self._pause(experiment.name, found)
                broken.append(experiment.name)
        return tuple(broken)

    def _violations(self, experiment: Experiment, epochs: Sequence[Epoch]) -> "_Violations":
        now, since = epochs[-1].number, resumed(epochs)
        watched = watch(self._store.database, experiment, resumed=since, epoch=now)
        if not experiment.harm_limits:
            return _Violations(guarded=watched.opened)
        metrics = ranged_harm_metrics(experiment, self._store)
        case = report_input(experiment, self._store, metrics, split=False)
        bounds = [one for one in harm_verdicts(case) if one.broken]
        known = {(one.treatment, one.metric) for one in bounds}
        looked: list[str] = []
        if watched.due > watched.spent:
            limits = broken_limits(
                experiment.name,
                self._store,
                case,
                epoch=now,
                alpha=alpha(watched.spent, watched.due),
                look=watched.due,
            )
            looked += [said for *place, said in limits if tuple(place) not in known]
        return _Violations(
            bounds=tuple(one.sentence for one in bounds), guarded=(*watched.opened, *looked)
        )

    def _pause(self, name: str, found: "_Violations") -> None:
        reason = "; ".join(found.reasons)
        if found.guarded:  # first, so that a report of a pause knows its kind
            note_stop(self._store.database, name, reason)
        if not self._store.pause(name, reason, self._clock()):
            return
        self.pauses[name] += 1
        by = Actor(kind="harm_limit", name=name)
        self._audit.record(AuditEvent.by(by, "experiment.pause", target=name, reason=reason))

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
