"""What a report says besides its numbers about how far they can be trusted."""

from collections.abc import Iterator, Sequence
from math import isfinite

from msgspec import Struct

from gateway.config.schema_experiment import Experiment
from gateway.experiments.service.report_input import clauses_of
from gateway.experiments.statistics.effects import FEWEST_UNITS, Effect
from gateway.experiments.statistics.metrics import BUILT_IN
from gateway.experiments.statistics.outcomes import Cell
from gateway.experiments.statistics.response_rates import Responses, compared
from gateway.store.base import Store

HEAVY = 0.1
"""Of a variant's observations: a unit with so many is named, where there are enough units for that
to be far from even."""

EVEN = 3.0
"""Times what the unit would have if all had the same."""


class ResponseReport(Struct, frozen=True, kw_only=True):
    """Votes per request, of one metric of feedback. sentence: "" where no difference is shown.

    low, high: of the difference to control, valid at every look; `None` until there is enough.
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
    """Of the metrics of feedback that the verdict is about. Blocks. Raises StoreUnavailable."""
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
    """Of a variant's observations, those of the unit with most in one epoch; 0: none."""
    observed = sum(cell.observed for cell in cells)
    return max((cell.heaviest for cell in cells), default=0.0) / observed if observed else 0.0


def notes_of(
    metric: str, variant: str, cells: Sequence[Cell], found: Effect | None
) -> Iterator[str]:
    """cells: of the variant. found: `None` for control."""
    noun = "values" if metric in BUILT_IN else "votes"
    share, units = largest_share(cells), sum(cell.units for cell in cells)
    if share >= HEAVY and share * units >= EVEN:
        yield f"{metric}: {100 * share:.0f} % of {variant}'s {noun} are a single unit's"
    if found is not None and found.pairs and found.left_out:
        numbers = ", ".join(map(str, found.left_out))
        which = "epochs" if len(found.left_out) > 1 else "epoch"
        yield (
            f"{metric}: {variant} is compared without {which} {numbers}, where an arm has fewer"
            f" than {FEWEST_UNITS} units with {noun}"
        )
