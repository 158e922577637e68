"""Read the adjusted outcomes of an experiment from the store, and check that they may be used."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.statistics.adjustment import Adjusted
from strowger_gateway.gateway.statistics.covariate_balance import Imbalance, imbalances
from strowger_gateway.gateway.statistics.metrics import LOG_PROMPT_TOKENS, PROMPT_TOKENS, Metric
from strowger_gateway.gateway.statistics.outcomes import Outcomes, Per
from strowger_gateway.gateway.statistics.verdict import AdjustedOutcomes
from strowger_gateway.gateway.storage.sql.base import Epoch, Store, first_comparison
from strowger_gateway.gateway.storage.sql.experiments.adjusted_queries import (
    PAST,
    adjusted_outcomes,
)


class Adjustment(Struct, frozen=True, kw_only=True):
    """The adjustment of one metric.

    found:     `None` if nothing can be fitted yet.
    differing: covariates that differ between variants; with any, the metric is not adjusted.
    """

    metric: Metric
    found: Adjusted | None
    differing: tuple[Imbalance, ...] = ()

    @property
    def used(self) -> AdjustedOutcomes | None:
        """What is compared instead of the outcomes; `None` if they are not adjusted.

        An observation at one of the metric's bounds is as far from its mean as before, and farther
        by what the adjustment moves it; that is on average `moved`.
        """
        found, bounds = self.found, self.metric.bounds
        if found is None or self.differing or not found.regressors:
            return None
        if bounds is not None:
            bounds = bounds[0] - found.moved, bounds[1] + found.moved
        return AdjustedOutcomes(outcomes=found.outcomes, bounds=bounds)


def adjustments_of(
    experiment: Experiment,
    store: Store,
    metrics: Sequence[Metric],
    per: Mapping[str, Per],
    planned: float,
) -> tuple[Adjustment, ...]:
    """Adjust metrics as the experiment says; () if it does not. Blocks.

    per: what the mean of each metric is over, by name. planned: as in `Look`.

    Raises StoreUnavailable.
    """
    if not experiment.adjust:
        return ()
    since = first_comparison(store.epochs(experiment.name))
    if since is None:
        return tuple(Adjustment(metric=metric, found=None) for metric in metrics)
    return tuple(
        _adjustment(experiment, store, metric, per[metric.name], since, planned)
        for metric in metrics
    )


def control_alone(
    experiment: Experiment, store: Store, metric: Metric, per: Per
) -> Outcomes | None:
    """Return control's outcomes after an adjustment fitted to it alone; `None` if there is none.

    Before the first comparison there is no past. Blocks. Raises StoreUnavailable.
    """
    since, control = first_comparison(store.epochs(experiment.name)) or 0, experiment.control.name
    names = covariates_of(experiment, metric)
    if not names:
        return None
    with store.database.reading() as session:
        found = adjusted_outcomes(
            session, experiment.name, metric.name, per, names, since, only=control
        )
    return None if found is None else found.outcomes


def baseline_epochs(epochs: Sequence[Epoch]) -> tuple[int, ...]:
    """Return the epochs before the first comparison; all, before there is one."""
    since = first_comparison(epochs)
    return tuple(one.number for one in epochs if since is None or one.number < since)


def covariates_of(experiment: Experiment, metric: Metric) -> tuple[str, ...]:
    """Return the covariates of a metric by the names that the store has them under.

    What takes long takes long in proportion, and is averaged as a logarithm: so is its prompt.
    """
    tokens = LOG_PROMPT_TOKENS if metric.scale == "log" else PROMPT_TOKENS
    return tuple(PAST if name == "past" else tokens for name in experiment.adjust)


def _adjustment(
    experiment: Experiment, store: Store, metric: Metric, per: Per, since: int, planned: float
) -> Adjustment:
    with store.database.reading() as session:
        found = adjusted_outcomes(
            session, experiment.name, metric.name, per, covariates_of(experiment, metric), since
        )
    differing: tuple[Imbalance, ...] = ()
    if found is not None:
        differing = imbalances(
            found.regressors,
            control=experiment.control.name,
            treatments=tuple(variant.name for variant in experiment.variants[1:]),
            planned=planned,
        )
    return Adjustment(metric=metric, found=found, differing=differing)
