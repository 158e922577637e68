"""An entry of the list of experiments: definition and state."""

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.removed import RemovedExperiment
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus


class ListedExperiment(Struct, frozen=True, kw_only=True):
    """An experiment in a list.

    epoch:   0 while the store has not answered yet, and for a removed experiment.
    removed: it is no longer in the configuration and can only be reported; `model`, `variants` and
             `primary` are empty if the store has no definition of it.
    last_request: of a removed experiment, Unix seconds.
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


def configured(experiment: Experiment, status: ExperimentStatus) -> ListedExperiment:
    """Build the entry of a configured experiment."""
    return ListedExperiment(
        name=experiment.name,
        model=experiment.model,
        variants=_variants(experiment),
        primary=experiment.primary,
        epoch=status.epoch,
        paused=status.paused,
        reason=status.reason,
    )


def removed(one: RemovedExperiment) -> ListedExperiment:
    """Build the entry of a removed experiment."""
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
