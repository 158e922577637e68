"""Compare the response rates of variants with a sequential test.

If dissatisfied users of one variant vote less often, its mean rises although no user is happier:
the votes are not missing at random (R. J. A. Little and D. B. Rubin, Statistical Analysis with
Missing Data, 2019, section 1.3). A difference in rates does not prove that means are biased, and
equal rates do not prove that they are not; but it is a reason to distrust.
"""

from collections.abc import Mapping

from msgspec import Struct

from strowger_gateway.gateway.statistics.effects import Effect, Look, effect
from strowger_gateway.gateway.statistics.formatting import change
from strowger_gateway.gateway.statistics.metrics import Metric
from strowger_gateway.gateway.statistics.outcomes import Outcomes

ALPHA = 0.01
"""Probability that variants with equal response rates are ever reported as different: for each
metric, over all looks and treatments."""


class Responses(Struct, frozen=True, kw_only=True):
    """The response rate of a treatment on one feedback metric.

    rate, control: votes per request; `None`: unknown. found: the treatment's rate minus control's.
    sentence:      "" if no difference is shown.
    """

    treatment: str
    metric: str
    rate: float | None
    control: float | None
    found: Effect
    sentence: str

    @property
    def differ(self) -> bool:
        return bool(self.sentence)


def compared(
    outcomes: Mapping[str, Outcomes], *, control: str, treatments: tuple[str, ...], planned: float
) -> tuple[Responses, ...]:
    """Compare the treatments with control.

    outcomes: by feedback metric; of each unit the requests, and how many had a vote.

    planned: as in `Look`.
    """
    among = len(treatments)
    look = Look(alpha=ALPHA / among, planned=planned, among=among)
    return tuple(
        _compared(metric, of_metric, control, treatment, look)
        for metric, of_metric in outcomes.items()
        for treatment in treatments
    )


def _compared(
    metric: str, outcomes: Outcomes, control: str, treatment: str, look: Look
) -> Responses:
    scale = Metric(name=metric, bounds=(0.0, 1.0))
    found = effect(outcomes, control=control, treatment=treatment, look=look, bounds=scale.bounds)
    rates = _rate(outcomes, treatment), _rate(outcomes, control)
    sentence = ""
    if found.low > 0 or found.high < 0:
        more = "more" if found.difference > 0 else "less"
        sentence = (
            f"RESPONSE RATES DIFFER: answers of {treatment} get {metric} {more} often than those of"
            f" {control}: {change(scale, found.difference)} votes per request"
            f" ({change(scale, found.low)} to {change(scale, found.high)}). Users who do not vote"
            f" may be what differs; trust no difference in {metric} before the cause is found"
        )
    return Responses(
        treatment=treatment,
        metric=metric,
        rate=rates[0],
        control=rates[1],
        found=found,
        sentence=sentence,
    )


def _rate(outcomes: Outcomes, variant: str) -> float | None:
    cells = [cell for cell in outcomes.cells if cell.variant == variant]
    requests = sum(cell.count for cell in cells)
    return sum(cell.total for cell in cells) / requests if requests else None
