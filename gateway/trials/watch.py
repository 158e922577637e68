"""How experiments stand, as the store says; and guardrails, which pause what does harm."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from gateway.config.experiment import Experiment
from gateway.experiments.ratio import Ratio, ratio
from gateway.experiments.verdict import guarded
from gateway.routing.trial import Standing, fingerprint
from gateway.store.base import Pause, Store
from gateway.trials.cases import case_of, guarded_metrics

_log = logging.getLogger("strowger.experiments")


class Watch:
    """Asks the store. Every method blocks and is called by one thread at a time.

    Epochs are found by their fingerprint, so every process that asks gets the same; it asks only
    when something has changed for it, for during a rollout two configurations live side by side.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        """clock: Unix seconds."""
        self._store = store
        self._clock = clock
        self._marks: dict[str, tuple[str, int]] = {}
        self._paused: dict[str, Pause] = {}
        self._alarmed: set[str] = set()

    def stand(self, experiments: Sequence[Experiment]) -> Mapping[str, Standing]:
        """By fingerprint. A pause, and its end, begin an epoch like every other change."""
        found: dict[str, Standing] = {}
        if not experiments:
            return found
        pauses = self._store.pauses()
        for experiment in experiments:
            pause = pauses.get(experiment.name)
            self._announce(experiment, pause)
            own = fingerprint(experiment)
            found[own] = Standing(
                epoch=self._epoch(experiment, own if pause is None else f"{own} paused"),
                paused=pause is not None,
                reason="" if pause is None else pause.reason,
            )
        return found

    def judge(self, experiments: Sequence[Experiment]) -> tuple[str, ...]:
        """Pauses every experiment of which a guardrail is broken; returns their names."""
        broken: list[str] = []
        for experiment in experiments:
            if experiment.name in self._store.pauses():
                continue
            self._check_split(experiment)
            if not experiment.guardrails:
                continue
            metrics = guarded_metrics(experiment, self._store)
            case = case_of(experiment, self._store, metrics, split=False)
            said = [guard.sentence for guard in guarded(case) if guard.broken]
            if said:
                self._store.pause(experiment.name, "; ".join(said), self._clock())
                broken.append(experiment.name)
        return tuple(broken)

    def _epoch(self, experiment: Experiment, mark: str) -> int:
        known = self._marks.get(experiment.name)
        if known is None or known[0] != mark:
            shares = {variant.name: variant.weight for variant in experiment.variants}
            epoch = self._store.epoch(experiment.name, mark, shares, self._clock())
            known = self._marks[experiment.name] = (mark, epoch.number)
            _log.info("experiment %s is in epoch %d", experiment.name, epoch.number)
        return known[1]

    def _announce(self, experiment: Experiment, pause: Pause | None) -> None:
        name, control = experiment.name, experiment.control.name
        if pause is not None and name not in self._paused:
            self._paused[name] = pause
            _log.warning(
                "experiment %s is PAUSED, %s serves everyone: %s", name, control, pause.reason
            )
        elif pause is None and self._paused.pop(name, None) is not None:
            _log.warning("experiment %s is resumed", name)

    def _check_split(self, experiment: Experiment) -> None:
        split: Ratio = ratio(self._store.counts(experiment.name))
        if split.mismatch and experiment.name not in self._alarmed:
            self._alarmed.add(experiment.name)
            _log.error(
                "experiment %s: SAMPLE RATIO MISMATCH: units are not split as the weights say "
                "(p = %.1g); nothing that it shows can be trusted",
                experiment.name,
                split.p,
            )
