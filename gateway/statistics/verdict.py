"""The verdict of a report in sentences, the most important first.

1. A sample ratio mismatch (`sample_ratio`): the sentence then says nothing else. Harm limits still
   pause.
2. A harm limit: a variant is shown to be worse than control by more than it may be. Or what else
   has paused the experiment for its sake: a look, or a circuit.
3. The decision (`decision`), if the experiment has one: which treatment should replace control.
4. The primary metric of each treatment against control. Several treatments share alpha equally
   (Bonferroni), so all their intervals hold together, and any selection from them holds too.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, log1p
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.statistics.decision import Clause, Decision, decided
from strowger_gateway.gateway.statistics.effects import (
    Effect,
    Look,
    effect,
    lower_bound,
)
from strowger_gateway.gateway.statistics.formatting import amount, change, rounded
from strowger_gateway.gateway.statistics.looks import LOOKS_ALPHA
from strowger_gateway.gateway.statistics.metrics import Metric
from strowger_gateway.gateway.statistics.outcomes import Outcomes
from strowger_gateway.gateway.statistics.sample_ratio import (
    EpochCounts,
    SampleRatio,
    sample_ratio_test,
)
from strowger_gateway.gateway.statistics.sample_size import units_to_go

HARM_ALPHA = 0.01
"""Probability that a harm limit ever pauses a variant that is within it: for each harm limit and
variant separately, because harm limits are independent conditions. On rates, LOOKS_ALPHA of it is
spent by looks (`looks`), and the rest by the bound here."""

HARM_PLANNED = 400.0
"""Pairs of observations for which harm limits are tuned (`Look.planned`): 1,600 requests in halves.
A harm limit is for an early stop, however large the planned sample of the primary metric is; at a
hundred times as many its bound is a seventh wider than it could be."""

HARM_FEWEST = 15.0
"""Minimum effective units in each arm: 60 API keys, assigned by a hash, rarely give 25 in each."""

HARM_LOOK = Look(alpha=HARM_ALPHA - LOOKS_ALPHA, planned=HARM_PLANNED, fewest=HARM_FEWEST)
"""For rates."""

HARM_LOOK_ALONE = replace(HARM_LOOK, alpha=HARM_ALPHA)
"""For other metrics, which are not tested by looks."""

Finding = Literal["better", "worse", "alike", "undecided"]
Kind = Literal[
    "ratio_mismatch",
    "harm_limit",
    "ship",
    "do_not_ship",
    "better",
    "worse",
    "alike",
    "undecided",
    "unsound",
]


class HarmBound(Struct, frozen=True, kw_only=True):
    """A harm limit. worse_by: above 0; absolute for "plain" metrics, relative for "log": 0.2 = 20 %
    slower.
    """

    metric: Metric
    worse_by: float

    @property
    def on_scale(self) -> float:
        """The limit on the metric's scale."""
        return log1p(self.worse_by) if self.metric.scale == "log" else self.worse_by


class AdjustedOutcomes(Struct, frozen=True, kw_only=True):
    """Outcomes of one metric after its adjustment. bounds: of single observations, as they count
    in them.
    """

    outcomes: Outcomes
    bounds: tuple[float, float] | None


class ReportInput(Struct, frozen=True, kw_only=True):
    """One experiment with its outcomes so far.

    outcomes: by metric. counts: units of all epochs, to test the split.
    adjusted: by metric, what is compared instead. Harm limits do not use it: they stop early, when
              few units fit an adjustment and nothing shows yet that covariates are alike.
    alpha:    of all treatments together. planned: as in `Look`.
    smallest: the least difference of the primary metric that matters; relative for "log".
    aa:       all variants are the same, and the experiment tests the gateway.
    decide:   what must hold for a treatment to replace control; its outcome is the headline.
    stopped:  why a circuit or a look has paused it, in words; "" if it is not paused by one.
    resumed:  the epoch of the last pause that was resumed; 0: none. Harm limits only use later
              epochs, because resuming implies that the operator has reviewed the earlier ones.
    """

    control: str
    treatments: tuple[str, ...]
    primary: Metric
    outcomes: Mapping[str, Outcomes]
    adjusted: Mapping[str, AdjustedOutcomes] = {}
    counts: tuple[EpochCounts, ...] = ()
    harm_limits: tuple[HarmBound, ...] = ()
    alpha: float = 0.05
    planned: float = Look().planned
    smallest: float | None = None
    power: float = 0.8
    aa: bool = False
    decide: tuple[Clause, ...] = ()
    resumed: int = 0
    stopped: str = ""

    @property
    def look(self) -> Look:
        """The parameters of the primary metric's interval for each treatment."""
        among = len(self.treatments)
        return Look(alpha=self.alpha / among, planned=self.planned, among=among)

    def effect_of(self, metric: Metric, treatment: str) -> Effect:
        """Return the difference of a treatment, adjusted if the metric is."""
        adjusted = self.adjusted.get(metric.name)
        if adjusted is None:
            return self.raw_effect_of(metric, treatment)
        return effect(
            adjusted.outcomes,
            control=self.control,
            treatment=treatment,
            look=self.look,
            bounds=adjusted.bounds,
        )

    def raw_effect_of(self, metric: Metric, treatment: str) -> Effect:
        """Return the difference of a treatment without any adjustment."""
        return effect(
            self.outcomes.get(metric.name, Outcomes()),
            control=self.control,
            treatment=treatment,
            look=self.look,
            bounds=metric.bounds,
        )


class ArmVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on one treatment.

    more_units: approximate number, of both arms; `None`: no end in sight.
    """

    treatment: str
    finding: Finding
    effect: Effect
    more_units: int | None
    sentence: str


class HarmVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on one harm limit and treatment.

    worse_by_at_least: one-sided, always valid, in the unit of `HarmBound.worse_by`; −inf: unknown.
    """

    treatment: str
    metric: str
    broken: bool
    worse_by_at_least: float
    sentence: str


class Verdict(Struct, frozen=True, kw_only=True):
    """The verdict on an experiment.

    kind:  "unsound" is an A/A test that shows a difference.
    pause: the treatments for which a harm limit is violated.
    """

    kind: Kind
    sentence: str
    ratio: SampleRatio
    arms: tuple[ArmVerdict, ...]
    harm_limits: tuple[HarmVerdict, ...]
    decisions: tuple[Decision, ...] = ()

    @property
    def pause(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                harm_limit.treatment for harm_limit in self.harm_limits if harm_limit.broken
            )
        )


def verdict_of(case: ReportInput) -> Verdict:
    """Compute the verdict. Raises ValueError for an input without treatments."""
    if not case.treatments:
        raise ValueError("an experiment needs a variant besides control")
    split = sample_ratio_test(case.counts)
    arms = tuple(_arm(case, treatment) for treatment in case.treatments)
    harm_limits = harm_verdicts(case)
    decisions = tuple(_decided(case, treatment) for treatment in case.treatments if case.decide)
    kind, sentence = _headline(case, split, arms, harm_limits, decisions)
    return Verdict(
        kind=kind,
        sentence=sentence,
        ratio=split,
        arms=arms,
        harm_limits=harm_limits,
        decisions=decisions,
    )


def harm_verdicts(case: ReportInput) -> tuple[HarmVerdict, ...]:
    """Check the harm limits of every treatment; all that the harm limit monitor needs."""
    return tuple(
        _harm_verdict(case, harm_limit, treatment)
        for harm_limit in case.harm_limits
        for treatment in case.treatments
    )


def harm_sentence(harm_limit: HarmBound, treatment: str, control: str, *, broken: bool) -> str:
    """Say whether a treatment is shown to be worse than its harm limit allows."""
    verb = "is worse than" if broken else "is not shown to be worse than"
    limit = amount(harm_limit.metric, harm_limit.on_scale)
    return f"{treatment} {verb} {control} in {harm_limit.metric.name} by more than {limit}"


def _decided(case: ReportInput, treatment: str) -> Decision:
    effects = [case.effect_of(clause.metric, treatment) for clause in case.decide]
    return decided(case.decide, effects, treatment=treatment, look=case.look)


def _arm(case: ReportInput, treatment: str) -> ArmVerdict:
    metric = case.primary
    smallest = case.smallest
    if smallest is not None and metric.scale == "log":
        smallest = log1p(smallest)
    found = case.effect_of(metric, treatment)
    farthest = max(-found.low, found.high)
    if found.low > 0 or found.high < 0:
        finding: Finding = "better" if metric.gain(found.difference) > 0 else "worse"
        sentence = (
            f"{treatment} is {finding} than {case.control}: {metric.name}"
            f" {change(metric, found.difference)}"
            f" ({change(metric, found.low)} to {change(metric, found.high)})"
        )
        return _arm_verdict(treatment, finding, found, 0, sentence)
    if smallest is not None and farthest <= smallest:
        sentence = (
            f"{treatment}: no difference in {metric.name} larger than {amount(metric, farthest)}"
        )
        return _arm_verdict(treatment, "alike", found, 0, sentence)
    if not found.known:
        sentence = f"{treatment}: not enough data for an interval of {metric.name} yet"
        return _arm_verdict(treatment, "undecided", found, None, sentence)
    more = units_to_go(found, case.look, smallest=smallest, power=case.power)
    so_far = f"; so far no difference in {metric.name} larger than {amount(metric, farthest)}"
    if more == inf:
        sentence = f"{treatment}: not enough data, and no end in sight{so_far}"
        return _arm_verdict(treatment, "undecided", found, None, sentence)
    sentence = f"{treatment}: not enough data: about {rounded(more)} more units{so_far}"
    return _arm_verdict(treatment, "undecided", found, round(more), sentence)


def _arm_verdict(
    treatment: str, finding: Finding, found: Effect, more_units: int | None, sentence: str
) -> ArmVerdict:
    return ArmVerdict(
        treatment=treatment,
        finding=finding,
        effect=found,
        more_units=more_units,
        sentence=sentence,
    )


def _harm_verdict(case: ReportInput, harm_limit: HarmBound, treatment: str) -> HarmVerdict:
    metric = harm_limit.metric
    look = HARM_LOOK if metric.is_rate else HARM_LOOK_ALONE
    found = effect(
        case.outcomes.get(metric.name, Outcomes()).after(case.resumed),
        control=case.control,
        treatment=treatment,
        look=look,
        bounds=metric.bounds,
    )
    worse = lower_bound(found, look, sign=1 if metric.better == "lower" else -1)
    limit = harm_limit.on_scale
    broken = worse > limit
    return HarmVerdict(
        treatment=treatment,
        metric=metric.name,
        broken=broken,
        worse_by_at_least=metric.effect(worse),
        sentence=harm_sentence(harm_limit, treatment, case.control, broken=broken),
    )


def _headline(
    case: ReportInput,
    split: SampleRatio,
    arms: Sequence[ArmVerdict],
    harm_limits: Iterable[HarmVerdict],
    decisions: Sequence[Decision],
) -> tuple[Kind, str]:
    if split.mismatch:
        return "ratio_mismatch", (
            "SAMPLE RATIO MISMATCH: units are not split as the weights say"
            f" (p = {split.p:.1g}). Something loses or adds units by variant; until it is found, no"
            " number of this experiment can be trusted"
        )
    broken = [harm_limit for harm_limit in harm_limits if harm_limit.broken]
    if broken:
        return "harm_limit", "; ".join(harm_limit.sentence for harm_limit in broken) + ": paused"
    if case.stopped:
        return "harm_limit", f"{case.stopped}: paused"
    if case.aa:
        return _aa(arms)
    return _decision(decisions) if decisions else _primary(arms)


def _decision(decisions: Sequence[Decision]) -> tuple[Kind, str]:
    """Order by outcome: ship first, refuted last; the kind is that of the first."""
    ranked = sorted(decisions, key=lambda one: (not one.ship, one.refuted))
    first = ranked[0]
    kind: Kind = "ship" if first.ship else "do_not_ship" if first.refuted else "undecided"
    return kind, ". ".join(one.sentence for one in ranked)


def _primary(arms: Sequence[ArmVerdict]) -> tuple[Kind, str]:
    """Order by finding, better first; all arms are named, and the kind is that of the first."""
    order: tuple[Finding, ...] = ("better", "undecided", "alike", "worse")
    ranked = sorted(arms, key=lambda arm: order.index(arm.finding))
    return ranked[0].finding, "; ".join(arm.sentence for arm in ranked)


def _aa(arms: Sequence[ArmVerdict]) -> tuple[Kind, str]:
    apart = [arm for arm in arms if arm.finding in ("better", "worse")]
    if apart:
        return "unsound", (
            "A/A TEST FAILED: "
            + "; ".join(arm.sentence for arm in apart)
            + ". The variants are the same, so something else differs; until it is found, do not"
            " trust experiments"
        )
    alike = all(arm.finding == "alike" for arm in arms)
    sentences = "; ".join(arm.sentence for arm in arms)
    return ("alike" if alike else "undecided"), f"A/A test sound so far: {sentences}"
