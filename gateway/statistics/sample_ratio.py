"""Test for a sample ratio mismatch: a sequential multinomial test, always valid.

If they are not, something removes or adds units depending on their variant, and no comparison of
the arms means anything. M. Lindon and A. Malek, "Anytime-valid inference for multinomial count
data", NeurIPS 2022, arXiv 2011.03567: the Bayes factor of a mixture over the shares against the
shares of the weights is a martingale with mean 1 while those hold. A tenth of the mixture is
theirs, a Dirichlet distribution around the weights' shares, which detects any mismatch sooner or
later. The rest is placed where a mismatch is hard to see but still does harm: one arm has slightly
more, or slightly less, than its share.

Each unit counts once, in the epoch in which the experiment first saw it. It keeps its variant as
long as it can, so in later epochs it would repeat the same draw, and a chance imbalance of the
first epoch would look like growing evidence. New units are new draws with their epoch's weights; so
the product of the epochs' Bayes factors is a martingale too, and one level holds for the whole
experiment.
"""

from collections.abc import Iterator, Sequence
from math import exp, inf, lgamma, log, log1p, sqrt

from msgspec import Struct

ALPHA = 0.001
"""Probability of a false alarm, however long an experiment runs and however often it is checked."""

NEAR = 0.9
"""The part of the mixture where one arm is off by OFF."""

OFF = 0.017
"""In standard deviations of one unit's draw, so 0.85 percentage points from one half: then nearly
the maximum of 51-to-49 splits is detected by 60,000 units (docs/experiments-statistics.md)."""

CONCENTRATION = 2_000.0
"""Concentration of the Dirichlet part; larger detects smaller deviations, but later."""


class ArmCount(Struct, frozen=True, kw_only=True):
    """One arm. weight: relative, in this epoch. units: those first seen in this epoch."""

    name: str
    weight: float
    units: int


class EpochCounts(Struct, frozen=True, kw_only=True):
    """All arms of one epoch: the one whose weights assigned the units."""

    epoch: int
    arms: tuple[ArmCount, ...]


class EpochRatio(Struct, frozen=True, kw_only=True):
    """One epoch's evidence against its weights: the logarithm of its Bayes factor."""

    epoch: int
    units: int
    evidence: float


class SampleRatio(Struct, frozen=True, kw_only=True):
    """The test's result. mismatch: p < ALPHA; no other result can then be trusted.

    p: always valid, over all epochs.
    """

    mismatch: bool
    p: float
    epochs: tuple[EpochRatio, ...]


def sample_ratio_test(epochs: Sequence[EpochCounts]) -> SampleRatio:
    """Test whether the units of all epochs together are split by their weights.

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
    return SampleRatio(mismatch=p < ALPHA, p=p, epochs=found)


def _evidence(counts: EpochCounts) -> float:
    """Return the log likelihood ratio of the mixture against the weights' shares."""
    weights = sum(arm.weight for arm in counts.arms)
    if not weights > 0:
        raise ValueError(f"epoch {counts.epoch}: no variant has a weight above 0")
    if any(arm.units and not arm.weight for arm in counts.arms):
        return inf
    arms = [(arm.weight / weights, arm.units) for arm in counts.arms if arm.weight]
    found = [log(1.0 - NEAR) + _anywhere(arms)]
    found += [log(NEAR / (2 * len(arms))) + one for one in _near(arms)]
    most = max(found)
    return most + log(sum(exp(one - most) for one in found))


def _anywhere(arms: Sequence[tuple[float, int]]) -> float:
    """Return the Dirichlet part of the evidence. arms: share and units.

    log of B(a + n) / B(a) / prod(share^n), a = CONCENTRATION · share, B the Beta function: arXiv
    2011.03567, section 2, the mixture with its mean at the shares.
    """
    total = lgamma(CONCENTRATION) - lgamma(CONCENTRATION + sum(units for _, units in arms))
    for share, units in arms:
        prior = CONCENTRATION * share
        total += lgamma(prior + units) - lgamma(prior) - units * log(share)
    return total


def _near(arms: Sequence[tuple[float, int]]) -> Iterator[float]:
    """Yield the log likelihood ratio for each arm, with more and with less than its share.

    The other arms share the rest in proportion to their shares. An arm whose share is close to 0 or
    1 is off by half of what is possible.
    """
    whole = sum(units for _, units in arms)
    for share, units in arms:
        rest = 1.0 - share
        off = min(OFF * sqrt(share * rest), share / 2, rest / 2)
        for moved in (off, -off):
            others = log1p(-moved / rest) if rest else 0.0
            yield units * log1p(moved / share) + (whole - units) * others
