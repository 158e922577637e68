"""An experiment in a list: what it is, and how it stands."""

from msgspec import Struct

from gateway.config.schema_experiment import Experiment
from gateway.experiments.service.removed import RemovedExperiment
from gateway.routing.planning.enrolment import ExperimentStatus


class ListedExperiment(Struct, frozen=True, kw_only=True):
    """epoch: 0 before its first request could come, while the store was not heard, and of one that
    is removed.

    removed: the configuration has it no more, and it can only be reported; `model`, `variants` and
    `primary` are empty where the store does not know what it was. last_request: of a removed one,
    Unix seconds.
    """

    name: str
    model: str
    variants: tuple[str, ...]
    primary: str
    epoch: int
    paused: bool
    reason: str
    removed: bool = False
    last_request: float | None = None


def configured(experiment: Experiment, standing: ExperimentStatus) -> ListedExperiment:
    """One that the configuration has."""
    return ListedExperiment(
        name=experiment.name,
        model=experiment.model,
        variants=_variants(experiment),
        primary=experiment.primary,
        epoch=standing.epoch,
        paused=standing.paused,
        reason=standing.reason,
    )


def removed(one: RemovedExperiment) -> ListedExperiment:
    """One that it has no more."""
    was = one.experiment
    return ListedExperiment(
        name=one.name,
        model="" if was is None else was.model,
        variants=() if was is None else _variants(was),
        primary="" if was is None else was.primary,
        epoch=0,
        paused=False,
        reason="",
        removed=True,
        last_request=one.last or None,
    )


def _variants(experiment: Experiment) -> tuple[str, ...]:
    return tuple(variant.name for variant in experiment.variants)
