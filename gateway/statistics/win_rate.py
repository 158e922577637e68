"""How often treatment's answer is preferred to control's on the same prompt.

Each pair of answers has a score in [0, 1]: 1 if treatment's is better, 0 if control's is, 1/2 for a
tie; asked in both orders, the mean of both. A unit's pairs resemble each other, so the value of a
unit is the mean of its scores, and the win rate is the mean of the units' values. Its interval is
that of `betting`, valid at every look, for units in a random order that is fixed in advance.

The report also shows what can make a judge's preference untrue:

1. Order: how often a judge prefers the answer that it reads first, whichever that is.
2. Length: how often it prefers the longer answer, and the win rate at equal lengths, by a logistic
   regression on the difference of the logarithms of the lengths (Y. Dubois, B. Galambosi, P. Liang
   and T. Hashimoto, "Length-controlled AlpacaEval", 2024, arXiv 2404.04475, section 3).
3. People: on pairs that people judged as well, the mean of people's score minus the judge's. The
   judge's win rate plus this correction is people's win rate (A. Angelopoulos et al.,
   "Prediction-powered inference", Science 2023, arXiv 2301.09633, section 2), with half of alpha
   for each of the two intervals.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import exp, sqrt
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.statistics.betting import BettingInterval, betting_interval

FEWEST_LENGTHS: Final = 30
"""Pairs before a win rate at equal lengths is given."""

RIDGE: Final = 1.0
"""Pseudo-observations that draw the two coefficients of the regression to 0, so that a judge who
always prefers the longer answer does not make them infinite."""

_NEWTON_STEPS: Final = 50

Finding = Literal["better", "worse", "alike", "undecided"]


class JudgedPair(Struct, frozen=True, kw_only=True):
    """The two answers to one prompt, judged.

    place:  in the fixed random order of units, and of a unit's pairs.
    score:  of treatment, in [0, 1]: the mean of both orders, or of a check.
    first:  the score when treatment's answer was shown first; second: when it was shown second;
            `None` for a pair that a check decided.
    length: log of the length of treatment's answer over control's; `None` if one is empty.
    human:  the mean of people's scores; `None` without any.
    """

    unit: str
    place: int
    score: float
    first: float | None = None
    second: float | None = None
    length: float | None = None
    human: float | None = None


class OrderBias(Struct, frozen=True, kw_only=True):
    """pairs: judged in both orders. first: share of preferences for the answer shown first, a tie
    counting half; low, high: its interval at 5 %, valid at every look. consistent: share of pairs
    with the same verdict in both orders.
    """

    pairs: int
    first: float
    low: float
    high: float
    consistent: float

    @property
    def shown(self) -> bool:
        """True if the judge is shown to prefer a place."""
        return self.low > 0.5 or self.high < 0.5


class LengthBias(Struct, frozen=True, kw_only=True):
    """pairs: with answers of different lengths. longer: share of preferences for the longer one;
    low, high: its interval at 5 %. treatment_longer: share of pairs in which treatment's is.

    slope: change of the logit of the win rate per unit of log length ratio.
    equal: the win rate at equal lengths, of pairs; `None` with too few.
    """

    pairs: int
    longer: float
    low: float
    high: float
    treatment_longer: float
    slope: float | None = None
    equal: float | None = None

    @property
    def shown(self) -> bool:
        """True if the judge is shown to prefer a length."""
        return self.low > 0.5 or self.high < 0.5


class Calibration(Struct, frozen=True, kw_only=True):
    """The judge against people, on the pairs that both judged.

    pairs, units:  of these. agreement: share of the pairs on which both prefer the same, of those
                   on which neither has a tie; `None` without any.
    people:        people's own win rate on these pairs, by units, with its interval.
    correction:    people's score minus the judge's, by units; low, high: its interval at alpha/2.
    corrected:     the judge's win rate plus the correction, with its interval at alpha, in [0, 1].
    """

    pairs: int
    units: int
    agreement: float | None
    people: BettingInterval
    correction: float
    low: float
    high: float
    corrected: float
    corrected_low: float
    corrected_high: float

    @property
    def shown(self) -> bool:
        """True if the judge is shown to differ from people."""
        return self.low > 0 or self.high < 0


class WinRate(Struct, frozen=True, kw_only=True):
    """The win rate of treatment over control, of units.

    rate, low, high: in [0, 1]; `low` and `high` are 0 and 1 without pairs. p: always valid, against
             a win rate of 1/2. pairs, units: that count. wins, ties, losses: of pairs.
    finding: by `low` and `high`, or by the corrected ones if the judge is shown to differ from
             people. sentence: says it.
    """

    rate: float
    low: float
    high: float
    p: float
    pairs: int
    units: int
    wins: int
    ties: int
    losses: int
    finding: Finding
    sentence: str
    order: OrderBias | None = None
    length: LengthBias | None = None
    calibration: Calibration | None = None


def win_rate(
    pairs: Iterable[JudgedPair],
    *,
    control: str = "control",
    treatment: str = "treatment",
    alpha: float = 0.05,
    smallest: float | None = None,
) -> WinRate:
    """Compute the win rate.

    pairs: of whole units, the first ones in their fixed order: units that are judged sooner because
    their answers are shorter would otherwise be selected. smallest: the difference from 1/2 that
    matters; an interval within it finds "alike".
    """
    ordered = sorted(pairs, key=lambda pair: pair.place)
    whole = betting_interval(_by_unit(ordered, lambda pair: pair.score), alpha=alpha)
    calibration = _calibration(ordered, whole, alpha)
    finding, sentence = _found(whole, calibration, control, treatment, smallest)
    return WinRate(
        rate=whole.mean,
        low=whole.low,
        high=whole.high,
        p=whole.p,
        pairs=len(ordered),
        units=whole.values,
        wins=sum(pair.score > 0.5 for pair in ordered),
        ties=sum(pair.score == 0.5 for pair in ordered),
        losses=sum(pair.score < 0.5 for pair in ordered),
        finding=finding,
        sentence=sentence,
        order=_order(ordered),
        length=_length(ordered),
        calibration=calibration,
    )


def _by_unit(
    pairs: Sequence[JudgedPair], value: Callable[[JudgedPair], float | None]
) -> list[float]:
    """Return each unit's mean, of the pairs that have the value."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for pair in pairs:
        one = value(pair)
        if one is not None:
            found[pair.unit].append(one)
    return [sum(values) / len(values) for values in found.values()]


def _shown_first(pair: JudgedPair) -> float | None:
    """Return the preference for the first answer, over both orders."""
    if pair.first is None or pair.second is None:
        return None
    return (pair.first + 1 - pair.second) / 2


def _order(pairs: Sequence[JudgedPair]) -> OrderBias | None:
    both = [(one.first, one.second) for one in pairs if _shown_first(one) is not None]
    if not both:
        return None
    bias = betting_interval(_by_unit(pairs, _shown_first))
    return OrderBias(
        pairs=len(both),
        first=bias.mean,
        low=bias.low,
        high=bias.high,
        consistent=sum(first == second for first, second in both) / len(both),
    )


def _longer(pair: JudgedPair) -> float | None:
    """Return the preference for the longer answer."""
    if not pair.length:
        return None
    return pair.score if pair.length > 0 else 1 - pair.score


def _length(pairs: Sequence[JudgedPair]) -> LengthBias | None:
    lengths = [pair.length for pair in pairs if pair.length]
    if not lengths:
        return None
    bias = betting_interval(_by_unit(pairs, _longer))
    measured = [(pair.length, pair.score) for pair in pairs if pair.length is not None]
    fitted = _logistic(measured) if len(measured) >= FEWEST_LENGTHS else None
    return LengthBias(
        pairs=len(lengths),
        longer=bias.mean,
        low=bias.low,
        high=bias.high,
        treatment_longer=sum(length > 0 for length in lengths) / len(lengths),
        slope=None if fitted is None else fitted[1],
        equal=None if fitted is None else 1 / (1 + exp(-fitted[0])),
    )


def _logistic(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return intercept and slope of the score's logit, with a ridge penalty, by Newton's method.

    The slope is penalised in units of the spread of x, so that it does not depend on its unit.
    """
    spread = sqrt(sum(x * x for x, _ in points) / len(points)) or 1.0
    a = b = 0.0
    for _ in range(_NEWTON_STEPS):
        ga, gb = -RIDGE * a, -RIDGE * b
        haa, hab, hbb = RIDGE, 0.0, RIDGE
        for x, y in points:
            z = x / spread
            p = 1 / (1 + exp(-(a + b * z)))
            ga += y - p
            gb += (y - p) * z
            w = p * (1 - p)
            haa += w
            hab += w * z
            hbb += w * z * z
        det = haa * hbb - hab * hab
        step_a, step_b = (hbb * ga - hab * gb) / det, (haa * gb - hab * ga) / det
        a, b = a + step_a, b + step_b
        if abs(step_a) + abs(step_b) < 1e-12:
            break
    return a, b / spread


def _correction(pair: JudgedPair) -> float | None:
    """Return people's score minus the judge's, moved from [-1, 1] into [0, 1]."""
    return None if pair.human is None else (pair.human - pair.score + 1) / 2


def _calibration(
    pairs: Sequence[JudgedPair], whole: BettingInterval, alpha: float
) -> Calibration | None:
    both = [(pair.human, pair.score) for pair in pairs if pair.human is not None]
    if not both:
        return None
    judge = betting_interval(_by_unit(pairs, lambda pair: pair.score), alpha=alpha / 2)
    moved = betting_interval(_by_unit(pairs, _correction), alpha=alpha / 2)
    low, high = 2 * moved.low - 1, 2 * moved.high - 1
    decided = [(a, b) for a, b in both if 0.5 not in (a, b)]
    return Calibration(
        pairs=len(both),
        units=moved.values,
        agreement=(
            sum((a > 0.5) == (b > 0.5) for a, b in decided) / len(decided) if decided else None
        ),
        people=betting_interval(_by_unit(pairs, lambda pair: pair.human), alpha=alpha),
        correction=2 * moved.mean - 1,
        low=low,
        high=high,
        corrected=_inside(whole.mean + 2 * moved.mean - 1),
        corrected_low=_inside(judge.low + low),
        corrected_high=_inside(judge.high + high),
    )


def _inside(rate: float) -> float:
    return min(1.0, max(0.0, rate))


def _found(
    whole: BettingInterval,
    calibration: Calibration | None,
    control: str,
    treatment: str,
    smallest: float | None,
) -> tuple[Finding, str]:
    if not whole.known:
        return "undecided", "no pair is judged yet"
    rate, low, high, whose = whole.mean, whole.low, whole.high, ""
    if calibration is not None and calibration.shown:
        rate, low, high = (
            calibration.corrected,
            calibration.corrected_low,
            calibration.corrected_high,
        )
        whose = ", corrected by people's votes, from which the judge differs"
    numbers = f"{100 * rate:.1f} % ({100 * low:.1f} to {100 * high:.1f} %){whose}"
    if low > 0.5:
        return "better", f"{treatment} is preferred to {control}: it wins {numbers}"
    if high < 0.5:
        return "worse", f"{control} is preferred to {treatment}, which wins {numbers}"
    if smallest is not None and 0.5 - smallest <= low and high <= 0.5 + smallest:
        margin = f"neither is preferred by more than {100 * smallest:g} points"
        return "alike", f"{margin}: {treatment} wins {numbers}"
    return "undecided", f"no preference is shown yet: {treatment} wins {numbers}"
