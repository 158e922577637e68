"""Whether units are split as the weights say: a sequential multinomial test, always valid.

If they are not, something removes or adds units depending on their variant, and no comparison of
the arms means anything. M. Lindon and A. Malek, "Anytime-valid inference for multinomial count
data", NeurIPS 2022, arXiv 2011.03567: the Bayes factor of a Dirichlet mixture over the shares
against the shares that the weights say is a martingale with mean 1 while those hold.

Each unit counts once, in the epoch in which the experiment first saw it. It keeps its variant as
long as it can, so in later epochs it would repeat the same draw, and an accident of the first epoch
would look like mounting evidence. New units are new draws with their epoch's weights; so the
product of the epochs' Bayes factors is a martingale too, and one level holds for the whole
experiment.
"""

from collections.abc import Sequence
from math import exp, inf, lgamma, log

from msgspec import Struct

ALPHA = 0.001
"""That a sound experiment is ever accused, however long it runs and however often one looks."""

CONCENTRATION = 4_000.0
"""Of the Dirichlet mixture: makes the test most sensitive for shares off by one point in a hundred
after 60,000 units (docs/experiments-statistics.md); larger finds smaller deviations, later."""


class ArmCount(Struct, frozen=True, kw_only=True):
    """weight: relative, in this epoch. units: seen for the first time in the experiment."""

    name: str
    weight: float
    units: int


class EpochCounts(Struct, frozen=True, kw_only=True):
    """All arms of one epoch. The epoch is the one by whose weights a unit was assigned."""

    epoch: int
    arms: tuple[ArmCount, ...]


class EpochRatio(Struct, frozen=True, kw_only=True):
    """One epoch's evidence against its weights: the logarithm of its Bayes factor."""

    epoch: int
    units: int
    evidence: float


class Ratio(Struct, frozen=True, kw_only=True):
    """mismatch: p < ALPHA; then nothing else counts. p: always valid, over all epochs."""

    mismatch: bool
    p: float
    epochs: tuple[EpochRatio, ...]


def ratio(epochs: Sequence[EpochCounts]) -> Ratio:
    """Whether the units of all epochs together are split by their weights.

    Raises ValueError for an epoch whose weights are all 0.
    """
    found = tuple(
        EpochRatio(
            epoch=counts.epoch,
            units=sum(arm.units for arm in counts.arms),
            evidence=_evidence(counts),
        )
        for counts in epochs
    )
    p = exp(-max(sum(epoch.evidence for epoch in found), 0.0))
    return Ratio(mismatch=p < ALPHA, p=p, epochs=found)


def _evidence(counts: EpochCounts) -> float:
    """log of B(a + n) / B(a) / prod(share^n), a = CONCENTRATION · share, B the Beta function.

    arXiv 2011.03567, section 2: the mixture with its mean at the expected shares.
    """
    weights = sum(arm.weight for arm in counts.arms)
    if not weights > 0:
        raise ValueError(f"epoch {counts.epoch}: no variant has a weight above 0")
    if any(arm.units and not arm.weight for arm in counts.arms):
        return inf
    total = lgamma(CONCENTRATION)
    total -= lgamma(CONCENTRATION + sum(arm.units for arm in counts.arms))
    for arm in counts.arms:
        if arm.weight:
            share = arm.weight / weights
            prior = CONCENTRATION * share
            total += lgamma(prior + arm.units) - lgamma(prior) - arm.units * log(share)
    return total
