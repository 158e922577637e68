"""Whether units are split as the weights say: a sequential multinomial test, always valid.

If they are not, something removes or adds units depending on their variant, and no comparison of
the arms means anything. M. Lindon and A. Malek, "Anytime-valid inference for multinomial count
data", NeurIPS 2022, arXiv 2011.03567: the Bayes factor of a mixture over the shares against the
shares that the weights say is a martingale with mean 1 while those hold. A tenth of the mixture is
theirs, a Dirichlet distribution around the weights' shares, which finds whatever is wrong, sooner
or later. The rest lies where a broken split is hard to see and still does harm: one arm has a
little more, or a little less, than its share.

Each unit counts once, in the epoch in which the experiment first saw it. It keeps its variant as
long as it can, so in later epochs it would repeat the same draw, and an accident of the first epoch
would look like mounting evidence. New units are new draws with their epoch's weights; so the
product of the epochs' Bayes factors is a martingale too, and one level holds for the whole
experiment.
"""

from collections.abc import Iterator, Sequence
from math import exp, inf, lgamma, log, log1p, sqrt

from msgspec import Struct

ALPHA = 0.001
"""That a sound experiment is ever accused, however long it runs and however often one looks."""

NEAR = 0.9
"""The part of the mixture that is where one arm is off by OFF."""

OFF = 0.017
"""In standard deviations of one unit's draw, so 0.85 points beside a half: then nearly as many
splits of 51 to 49 are found by 60,000 units as can be (docs/experiments-statistics.md)."""

CONCENTRATION = 2_000.0
"""Of the Dirichlet part; larger finds smaller deviations, later."""


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


class SampleRatio(Struct, frozen=True, kw_only=True):
    """mismatch: p < ALPHA; then nothing else counts. p: always valid, over all epochs."""

    mismatch: bool
    p: float
    epochs: tuple[EpochRatio, ...]


def sample_ratio_test(epochs: Sequence[EpochCounts]) -> SampleRatio:
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
    return SampleRatio(mismatch=p < ALPHA, p=p, epochs=found)


def _evidence(counts: EpochCounts) -> float:
    """The logarithm of the mixture's likelihood over that of the weights' shares."""
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
    """arms: share and units. log of B(a + n) / B(a) / prod(share^n), a = CONCENTRATION · share, B
    the Beta function: arXiv 2011.03567, section 2, the mixture with its mean at the shares.
    """
    total = lgamma(CONCENTRATION) - lgamma(CONCENTRATION + sum(units for _, units in arms))
    for share, units in arms:
        prior = CONCENTRATION * share
        total += lgamma(prior + units) - lgamma(prior) - units * log(share)
    return total


def _near(arms: Sequence[tuple[float, int]]) -> Iterator[float]:
    """For each arm, with more and with less than its share: log of the likelihood ratio.

    The others have what is left in the proportion of their shares. An arm whose share is next to
    nothing, or next to all, is off by half of what it can be.
    """
    whole = sum(units for _, units in arms)
    for share, units in arms:
        rest = 1.0 - share
        off = min(OFF * sqrt(share * rest), share / 2, rest / 2)
        for moved in (off, -off):
            others = log1p(-moved / rest) if rest else 0.0
            yield units * log1p(moved / share) + (whole - units) * others
