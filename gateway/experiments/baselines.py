"""The baseline of an experiment's control in the store, from which the next one is planned."""

from collections.abc import Sequence
from math import sqrt

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.adjustment.results import control_alone
from strowger_gateway.gateway.experiments.report_input import per_of
from strowger_gateway.gateway.statistics.metrics import Metric
from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes
from strowger_gateway.gateway.storage.sql.base import Store


class Baseline(Struct, frozen=True, kw_only=True):
    """The baseline of one metric, on the metric's own scale.

    mean:  by the units' weights. sd: of a unit's part in it (`sample_size.unit_sd`).
    units: that it is computed from; a unit that returns in a later epoch counts again.
    explained: share of the variance that the experiment's adjustment has taken off.
    observed_share: share of the assigned units with an observation; for feedback, with a vote.
    """

    metric: str
    mean: float
    sd: float
    units: int
    observed_share: float
    explained: float = 0.0


FEWEST: int = 30
"""Minimum number of units to estimate a spread."""


def baseline_of(experiment: Experiment, store: Store, metric: Metric) -> Baseline:
    """Read the baseline from the store; blocks.

    Raises ValueError if there are too few units, StoreUnavailable.
    """
    control, per = experiment.control.name, per_of(experiment, metric)
    cells = [
        cell
        for cell in store.outcomes(experiment.name, metric.name, per=per).cells
        if cell.variant == control and cell.units > 1
    ]
    units = sum(cell.units for cell in cells)
    if units < FEWEST:
        raise ValueError(
            f"{experiment.name}: {control} has {units} units with a value of {metric.name}; "
            f"estimating a spread needs at least {FEWEST}"
        )
    count = sum(cell.count for cell in cells)
    squares = sum(_squares(cell) for cell in cells)
    assigned = sum(
        arm.units
        for epoch in store.counts(experiment.name)
        for arm in epoch.arms
        if arm.name == control
    )
    mean = sum(cell.total for cell in cells) / count
    sd = sqrt(squares / (units - len(cells))) * units / count
    if not sd and metric.bounds is not None:
        sd = _unseen(mean, metric.bounds, count) * sqrt(units / count)
    explained = _explained(cells, control_alone(experiment, store, metric, per))
    return Baseline(
        metric=metric.name,
        mean=mean,
        sd=sd * sqrt(1 - explained),
        units=units,
        observed_share=min(units / assigned, 1.0) if assigned else 1.0,
        explained=explained,
    )


def _explained(cells: Sequence[Cell], adjusted: Outcomes | None) -> float:
    """Return the share of the squares that the adjustment takes off, of the cells that it has."""
    if adjusted is None:
        return 0.0
    kept = {cell.place: _squares(cell) for cell in adjusted.cells}
    raw = {cell.place: _squares(cell) for cell in cells if cell.place in kept}
    before, after = sum(raw.values()), sum(kept[place] for place in raw)
    return max(1 - after / before, 0.0) if before else 0.0


def _unseen(mean: float, bounds: tuple[float, float], count: float) -> float:
    """The sd of an observation if all are equal: as if two more were at the bounds."""
    low, high = bounds
    part = (mean - low) / (high - low)
    part = (part * count + 1) / (count + 2)
    return (high - low) * sqrt(part * (1 - part))


def _squares(cell: Cell) -> float:
    """The sum over units of (total − mean · count)²."""
    mean = cell.mean
    return max(cell.total2 - 2 * mean * cell.product + mean * mean * cell.count2, 0.0)
