"""Guardrails, which pause what does harm, and the alarm for a broken split."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

from gateway.config.schema_experiment import Experiment
from gateway.experiments.service.report_input import guarded_metrics, report_input
from gateway.experiments.statistics.sample_ratio import SampleRatio, sample_ratio_test
from gateway.experiments.statistics.verdict import guarded
from gateway.store.base import Store

_log = logging.getLogger("strowger.experiments")
CHECK_INTERVAL_S = 5.0
"""Between two looks."""
CLAIM = "guardrails of "
"""Of the store, before an experiment's name: one of all gateways on it has the turn at a time."""
LATE = 0.9
"""Of the time between two looks: so old may the last turn be for the next; timers vary a little."""


class GuardrailMonitor:
    """Looks at the outcomes in the store, for all workers and replicas on it.

    A look reads every unit's sums, so replicas take turns: who finds that nobody has looked lately
    at an experiment does. Two looks at once would do no harm, for a pause is written once.

    mismatched: by experiment whether its units were split otherwise than the weights say, when this
    Judge last looked. pauses: how often a guardrail has paused one, as far as this Judge did it.
    """

    def __init__(
        self,
        store: Store,
        *,
        every_s: float = CHECK_INTERVAL_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """clock: Unix seconds."""
        self.mismatched: dict[str, bool] = {}
        self.pauses: Counter[str] = Counter()
        self._store = store
        self._every_s = every_s
        self._clock = clock
        self._alarmed: set[str] = set()

    def check(self, experiments: Sequence[Experiment]) -> tuple[str, ...]:
        """Pauses every experiment of which a guardrail is broken; returns their names.

        Blocks. Raises StoreUnavailable.
        """
        for name in self.mismatched.keys() - {one.name for one in experiments}:
            del self.mismatched[name]
        paused = self._store.pauses()
        broken: list[str] = []
        for experiment in experiments:
            turn = CLAIM + experiment.name
            if experiment.name in paused or not self._store.claim(
                turn, self._every_s * LATE, self._clock()
            ):
                continue
            self._check_split(experiment)
            epochs = self._store.epochs(experiment.name)
            if not experiment.guardrails or (epochs and epochs[-1].paused):
                continue  # resumed a moment ago, and nobody was served since
            metrics = guarded_metrics(experiment, self._store)
            case = report_input(experiment, self._store, metrics, split=False)
            said = [guard.sentence for guard in guarded(case) if guard.broken]
            if said:
                if self._store.pause(experiment.name, "; ".join(said), self._clock()):
                    self.pauses[experiment.name] += 1
                broken.append(experiment.name)
        return tuple(broken)

    def _check_split(self, experiment: Experiment) -> None:
        split: SampleRatio = sample_ratio_test(self._store.counts(experiment.name))
        self.mismatched[experiment.name] = split.mismatch
        if split.mismatch and experiment.name not in self._alarmed:
            self._alarmed.add(experiment.name)
            _log.error(
                "experiment %s: SAMPLE RATIO MISMATCH: units are not split as the weights say "
                "(p = %.1g); nothing that it shows can be trusted",
                experiment.name,
                split.p,
            )
