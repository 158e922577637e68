"""The metrics of a report: the numbers of each variant, and notes on them."""

from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.config.schema.metric import MetricContract
from strowger_gateway.gateway.experiments.adjustment.report import (
    AdjustmentReport,
    Unadjusted,
    adjustment_report,
    unadjusted,
)
from strowger_gateway.gateway.experiments.adjustment.results import (
    Adjustment,
)
from strowger_gateway.gateway.experiments.report_input import (
    outside,
    per_of,
)
from strowger_gateway.gateway.experiments.trust.capped_units import CappedUnit, capped_units
from strowger_gateway.gateway.experiments.trust.value_ranges import RangeReport, range_report
from strowger_gateway.gateway.experiments.trust_report import (
    largest_share,
    notes_of,
)
from strowger_gateway.gateway.statistics.effects import (
    FEWEST_EFFECTIVE,
    FEWEST_UNITS,
    Effect,
)
from strowger_gateway.gateway.statistics.metrics import BUILT_IN, Metric
from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes
from strowger_gateway.gateway.statistics.value_range import ValueRange
from strowger_gateway.gateway.statistics.verdict import ReportInput
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.experiments.votes import Votes


class Measured(Struct, frozen=True, kw_only=True):
    """A metric of one variant, with the difference to control; `None` for control itself.

    units:        with an observation; a unit that returns in a later epoch counts again.
    mean:         by the units' weights; the geometric mean for times. `None`: no observation yet.
    difference:   within epochs, so not always that of the means; for times relative, 0.1 = 10 %.
    low, high:    its interval, valid at every look; `None` until there are enough data.
    missing:      what is missing for an interval, in words; "" if there is one.
    largest_share: share of the observations from the unit with the most in one epoch, 0 to 1.
    capped_units: units that weigh less than they sent, because none may weigh more than 1/50 of a
                  variant. capped: the busiest of them.
    excluded_epochs: epochs excluded from the difference, because an arm has too few units.
    notes:        notes on these numbers, in words.
    unadjusted:   the difference without the adjustment; `None` if there is none.
    """

    variant: str
    units: int
    observations: int
    mean: float | None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    missing: str = ""
    largest_share: float = 0.0
    capped_units: int = 0
    capped: tuple[CappedUnit, ...] = ()
    excluded_epochs: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    unadjusted: Unadjusted | None = None

    @property
    def blank(self) -> bool:
        """True if there is no observation yet."""
        return not self.observations


class MetricReport(Struct, frozen=True, kw_only=True):
    """A metric of all variants. relative: differences are relative. worse_by: its harm limit's.

    contract: from `metrics` in the configuration; `None` for built-in metrics, or without one.
    capped:   votes that count as the contract's cap.
    outside:  the least and greatest vote, if one is outside the metric's range because it came
              before the contract. The interval is then wide.
    range:    what the contract's range costs; `None`: little.
    adjustment: `None` if the experiment does not adjust.
    """

    name: str
    primary: bool
    better: str
    relative: bool
    variants: tuple[Measured, ...]
    worse_by: float | None = None
    contract: MetricContract | None = None
    capped: int = 0
    outside: tuple[float, float] | None = None
    range: RangeReport | None = None
    adjustment: AdjustmentReport | None = None


def metric_report(
    experiment: Experiment,
    store: Store,
    metric: Metric,
    case: ReportInput,
    feedback: Mapping[str, Votes],
    adjustments: Mapping[str, Adjustment],
    ranges: Mapping[str, ValueRange],
) -> MetricReport:
    """Report one metric. Blocks. Raises StoreUnavailable."""
    votes, adjustment = feedback.get(metric.name), adjustments.get(metric.name)
    outcomes = case.outcomes[metric.name]
    limits = [one.worse_by for one in experiment.harm_limits if one.metric == metric.name]
    return MetricReport(
        name=metric.name,
        primary=metric.name == experiment.primary,
        better=metric.better,
        relative=metric.scale == "log",
        worse_by=min(limits) if limits else None,
        contract=experiment.contract(metric.name),
        capped=0 if votes is None else votes.capped,
        outside=outside(experiment, metric.name, votes),
        range=range_report(ranges.get(metric.name)),
        variants=tuple(
            _measured(
                variant.name,
                metric,
                outcomes,
                case,
                capped=_capped(experiment, store, metric, outcomes, variant.name),
            )
            for variant in experiment.variants
        ),
        adjustment=None if adjustment is None else adjustment_report(adjustment, case),
    )


def _capped(
    experiment: Experiment, store: Store, metric: Metric, outcomes: Outcomes, variant: str
) -> tuple[CappedUnit, ...]:
    if per_of(experiment, metric) == "unit":
        return ()
    cells = [cell for cell in outcomes.cells if cell.variant == variant]
    return capped_units(store, experiment.name, metric.name, cells)


def _measured(
    variant: str,
    metric: Metric,
    outcomes: Outcomes,
    case: ReportInput,
    *,
    capped: tuple[CappedUnit, ...],
) -> Measured:
    cells = [cell for cell in outcomes.cells if cell.variant == variant]
    alone = Measured(
        variant=variant,
        units=sum(cell.units for cell in cells),
        observations=round(sum(cell.observed for cell in cells)),
        mean=_mean(cells, metric),
        largest_share=largest_share(cells),
        capped_units=sum(cell.capped for cell in cells) if capped else 0,
        capped=capped,
        notes=tuple(notes_of(metric.name, variant, cells, None, capped)),
    )
    noun = "values" if metric.name in BUILT_IN else "votes"
    if variant == case.control:
        missing = f"no {noun} yet" if alone.blank else ""
        return msgspec.structs.replace(alone, missing=missing)
    found = case.effect_of(metric, variant)
    return msgspec.structs.replace(
        alone,
        difference=metric.effect(found.difference) if found.pairs else None,
        low=_bound(metric, found.low),
        high=_bound(metric, found.high),
        p=found.p if found.known else None,
        missing=_missing(alone, found, outcomes, case, noun),
        excluded_epochs=found.excluded_epochs,
        notes=tuple(notes_of(metric.name, variant, cells, found, capped)),
        unadjusted=unadjusted(metric, case, variant, found),
    )


def _missing(
    alone: Measured, found: Effect, outcomes: Outcomes, case: ReportInput, noun: str
) -> str:
    """Say what is missing for an interval. noun: the word for the metric's observations."""
    if alone.blank:
        return f"no {noun} yet"
    if not any(cell.variant == case.control for cell in outcomes.cells):
        return f"no {noun} for {case.control} yet"
    if not found.pairs:
        return f"fewer than {FEWEST_UNITS} units of each arm"
    if found.effective < FEWEST_EFFECTIVE:
        return "too few units for an interval"
    return "" if found.known else "all values are the same"


def _bound(metric: Metric, difference: float) -> float | None:
    """Return a bound for display; `None` if there is none yet, or it overflows."""
    shown = metric.effect(difference)
    return shown if isfinite(difference) and isfinite(shown) else None


def _mean(cells: Sequence[Cell], metric: Metric) -> float | None:
    count = sum(cell.count for cell in cells)
    return metric.shown(sum(cell.total for cell in cells) / count) if count else None
