"""Whether the variants' units are alike in a covariate, as an adjustment requires.

An adjustment takes off what a covariate predicts. If the variant itself changes the covariate, such
as the length of a conversation's next prompts by the length of its own answers, this takes off a
part of the effect. Randomisation makes the means equal otherwise, so a difference that is shown
with an interval valid at every look means: do not adjust (P. R. Rosenbaum, "The consequences of
adjustment for a concomitant variable that has been affected by the treatment", JRSS A 1984).
Equal means do not prove that the variant has no influence.
"""

from collections.abc import Sequence

from msgspec import Struct

from strowger_gateway.gateway.statistics.adjustment import Regressor
from strowger_gateway.gateway.statistics.effects import Effect, Look, effect

ALPHA = 0.01
"""Probability that an adjustment of a metric is ever given up although the variants do not change
its covariates: over all looks, treatments and covariates."""


class Imbalance(Struct, frozen=True, kw_only=True):
    """A covariate that differs between a treatment and control.

    indicator: the share of units with a value differs, and not the values.
    found:     the difference of the means, with its interval.
    """

    treatment: str
    covariate: str
    indicator: bool
    found: Effect


def imbalances(
    regressors: Sequence[Regressor], *, control: str, treatments: Sequence[str], planned: float
) -> tuple[Imbalance, ...]:
    """Return the covariates that differ. planned: as in `Look`."""
    number = len(treatments) * len(regressors)
    found: list[Imbalance] = []
    for regressor in regressors:
        for treatment in treatments:
            look = Look(alpha=ALPHA / number, planned=planned, among=number)
            one = effect(regressor.outcomes, control=control, treatment=treatment, look=look)
            if one.low > 0 or one.high < 0:
                found.append(
                    Imbalance(
                        treatment=treatment,
                        covariate=regressor.covariate,
                        indicator=regressor.indicator,
                        found=one,
                    )
                )
    return tuple(found)
