"""Poll the state of experiments from the store."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.plans.changes import record_plan
from strowger_gateway.gateway.experiments.removed import definition
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus, fingerprint
from strowger_gateway.gateway.storage.sql.base import Pause, Store
from strowger_gateway.gateway.storage.sql.experiments.pause_epochs import PAUSED

_log = logging.getLogger("strowger.experiments")


class ExperimentPoller:
    """Poll the store. Every method blocks; call them from one thread at a time.

    Epochs are found by fingerprint, so every process gets the same one. A process only asks for it
    when its own configuration changes: during a rollout two configurations are live side by side.
    """

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.time, *, announces: bool = True
    ) -> None:
        """clock: Unix seconds. announces: log state changes; only one process should."""
        self._store = store
        self._clock = clock
        self._level = logging.INFO if announces else logging.DEBUG
        self._loud = logging.WARNING if announces else logging.DEBUG
        self._marks: dict[str, tuple[str, int]] = {}
        self._coming: dict[str, tuple[str, int]] = {}
        self._defined: dict[str, Experiment] = {}
        self._paused: dict[str, Pause] = {}
        self._ended: Mapping[str, int] = {}

    def poll(self, experiments: Sequence[Experiment]) -> Mapping[str, ExperimentStatus]:
        """Return states by fingerprint. Pausing and resuming start an epoch, like any change."""
        found = self._statuses(experiments, self._epoch)
        for experiment in experiments:
            if self._defined.get(experiment.name) != experiment:
                self._store.define(
                    experiment.name,
                    definition(experiment),
                    self._clock(),
                    experiment.votes_until_s,
                )
                record_plan(self._store, experiment, self._clock())
                self._defined[experiment.name] = experiment
        return found

    def prepare(self, experiments: Sequence[Experiment]) -> Mapping[str, ExperimentStatus]:
        """Return the states under a new configuration, while `poll` still returns the old ones."""
        return self._statuses(experiments, self._coming_epoch)

    def _statuses(
        self, experiments: Sequence[Experiment], epoch: Callable[[Experiment, str], int]
    ) -> Mapping[str, ExperimentStatus]:
        found: dict[str, ExperimentStatus] = {}
        if not experiments:
            return found
        pauses, self._ended = self._store.pauses(), self._store.paused_epochs()
        for experiment in experiments:
            pause = pauses.get(experiment.name)
            self._announce(experiment, pause)
            own = fingerprint(experiment)
            found[own] = ExperimentStatus(
                epoch=epoch(experiment, own if pause is None else own + PAUSED),
                paused=pause is not None,
                reason="" if pause is None else pause.reason,
            )
        return found

    def _coming_epoch(self, experiment: Experiment, mark: str) -> int:
        known = self._marks.get(experiment.name)
        if known is None or known[0] != mark or self._is_over(experiment.name, known):
            known = self._coming[experiment.name] = (mark, self._epoch_from_store(experiment, mark))
        return known[1]

    def _epoch(self, experiment: Experiment, mark: str) -> int:
        name = experiment.name
        known = self._marks.get(name)
        if known is None or known[0] != mark or self._is_over(name, known):
            known = self._coming.pop(name, None)
            if known is None or known[0] != mark or self._is_over(name, known):
                known = (mark, self._epoch_from_store(experiment, mark))
            self._marks[name] = known
            _log.log(self._level, "experiment %s is in epoch %d", name, known[1])
        return known[1]

    def _is_over(self, name: str, known: tuple[str, int]) -> bool:
        """True if a pause has ended this epoch, and the pause itself was over between two polls."""
        return not known[0].endswith(PAUSED) and known[1] < self._ended.get(name, 0)

    def _epoch_from_store(self, experiment: Experiment, mark: str) -> int:
        shares = {variant.name: variant.weight for variant in experiment.variants}
        return self._store.epoch(experiment.name, mark, shares, self._clock()).number

    def _announce(self, experiment: Experiment, pause: Pause | None) -> None:
        name, control = experiment.name, experiment.control.name
        if pause is not None and name not in self._paused:
            self._paused[name] = pause
            _log.log(
                self._loud,
                "experiment %s is PAUSED, %s serves everyone: %s",
                name,
                control,
                pause.reason,
            )
        elif pause is None and self._paused.pop(name, None) is not None:
            _log.log(self._loud, "experiment %s is resumed", name)
