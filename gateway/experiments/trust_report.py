"""The parts of a report on how far its numbers can be trusted."""

from collections.abc import Iterator, Sequence
from math import isfinite

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.report_input import clauses_of
from strowger_gateway.gateway.experiments.trust.capped_units import CappedUnit, capped_notes
from strowger_gateway.gateway.statistics.effects import FEWEST_UNITS, Effect
from strowger_gateway.gateway.statistics.metrics import BUILT_IN
from strowger_gateway.gateway.statistics.outcomes import Cell
from strowger_gateway.gateway.statistics.response_rates import Responses, compared
from strowger_gateway.gateway.storage.sql.base import Store

HEAVY = 0.1
"""Share of a variant's observations above which one unit is reported, if there are enough units for
that to be far from even."""

EVEN = 3.0
"""Multiple of an even share above which a unit's share is far from even."""


class ResponseReport(Struct, frozen=True, kw_only=True):
    """Votes per request on one feedback metric. sentence: "" if no difference is shown.

    low, high: interval of the difference to control, valid at every look; `None` until there are
    enough data.
    """

    variant: str
    metric: str
    rate: float | None
    control: float | None
    low: float | None
    high: float | None
    sentence: str


def responses_of(
    experiment: Experiment, store: Store, planned: float
) -> tuple[ResponseReport, ...]:
    """Compare the response rates of the feedback metrics that the verdict depends on.

    Blocks. Raises StoreUnavailable.
    """
    asked = dict.fromkeys((experiment.primary, *(name for name, _ in clauses_of(experiment))))
    names = [name for name in asked if name not in BUILT_IN]
    found = compared(
        {name: store.responses(experiment.name, name) for name in names},
        control=experiment.control.name,
        treatments=tuple(variant.name for variant in experiment.variants[1:]),
        planned=planned,
    )
    return tuple(map(_response, found))


def _response(one: Responses) -> ResponseReport:
    return ResponseReport(
        variant=one.treatment,
        metric=one.metric,
        rate=one.rate,
        control=one.control,
        low=one.found.low if isfinite(one.found.low) else None,
        high=one.found.high if isfinite(one.found.high) else None,
        sentence=one.sentence,
    )


def largest_share(cells: Sequence[Cell]) -> float:
    """Return the share of a variant's observations from the unit with the most; 0: none."""
    observed = sum(cell.observed for cell in cells)
    return max((cell.heaviest for cell in cells), default=0.0) / observed if observed else 0.0


def notes_of(
    metric: str,
    variant: str,
    cells: Sequence[Cell],
    found: Effect | None,
    capped: Sequence[CappedUnit] = (),
) -> Iterator[str]:
    """Yield notes on one variant. cells: the variant's. found: `None` for control."""
    noun = "values" if metric in BUILT_IN else "votes"
    share, units = largest_share(cells), sum(cell.units for cell in cells)
    if share >= HEAVY and share * units >= EVEN:
        busiest = max(capped, key=lambda one: one.observations, default=None)
        unit = f", {busiest.unit}" if busiest is not None else ""
        yield (
            f"{metric}: {100 * share:.0f} % of {variant}'s {noun} are from a single unit{unit}; "
            "exclude it (strowger experiments exclude), or set `per: unit` or `level: unit` in the "
            "next experiment"
        )
    yield from capped_notes(metric, noun, variant, capped)
    if found is not None and found.pairs and found.excluded_epochs:
        numbers = ", ".join(map(str, found.excluded_epochs))
        which = "epochs" if len(found.excluded_epochs) > 1 else "epoch"
        yield (
            f"{metric}: {variant} is compared without {which} {numbers}, where an arm has fewer"
            f" than {FEWEST_UNITS} units with {noun}"
        )
