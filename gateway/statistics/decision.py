"""Decide whether a treatment should replace control: better in one metric, not worse in others.

Each clause is a one-sided statement about one metric, with a bound that is valid at every look.
"Ship" needs all of them. That is an intersection-union test: "ship" is wrong only if at least one
clause is false, and then that clause alone has to err, so each is tested at the full alpha, which
is not divided among them (R. L. Berger, "Multiparameter hypothesis testing and acceptance
sampling", Technometrics 1982). Treatments share alpha, because any of them may be shipped.
"""

from collections.abc import Iterable, Sequence
from math import inf, isfinite, log1p

from msgspec import Struct

from strowger_gateway.gateway.statistics.effects import (
    Effect,
    Look,
    lower_bound,
)
from strowger_gateway.gateway.statistics.formatting import amount, change, rounded
from strowger_gateway.gateway.statistics.metrics import Metric
from strowger_gateway.gateway.statistics.sample_size import one_sided_to_go


class Clause(Struct, frozen=True, kw_only=True):
    """One condition of a decision.

    by: how much worse the metric may be, above 0; relative for "log" metrics, 0.05 = 5 % slower.
        `None`: it must be better.
    """

    metric: Metric
    by: float | None = None

    @property
    def margin(self) -> float:
        """The value that the gain must exceed, on the metric's scale."""
        if self.by is None:
            return 0.0
        return -log1p(self.by) if self.metric.scale == "log" else -self.by


class ClauseVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on one clause for one treatment.

    holds:      shown to hold. refuted: shown not to hold.
    at_least:   the lower bound of the gain, above 0 is better; relative for "log", 0.2 = 20 %
                faster. −inf: unknown.
    more_units: approximate number until it holds if the estimate stays; `None`: no end in sight.
    """

    metric: str
    by: float | None
    holds: bool
    refuted: bool
    at_least: float
    more_units: int | None
    sentence: str


class Decision(Struct, frozen=True, kw_only=True):
    """The decision on one treatment. ship: all clauses hold. refuted: at least one cannot hold."""

    treatment: str
    ship: bool
    refuted: bool
    sentence: str
    clauses: tuple[ClauseVerdict, ...]


def decided(
    clauses: Sequence[Clause], effects: Sequence[Effect], *, treatment: str, look: Look
) -> Decision:
    """Decide on one treatment.

    effects: of each clause, compared with control by this look. look.alpha: the probability that
    "ship" is ever wrong for the treatment.
    """
    found = tuple(_clause(clause, one, look) for clause, one in zip(clauses, effects, strict=True))
    ship = all(one.holds for one in found)
    refuted = any(one.refuted for one in found)
    return Decision(
        treatment=treatment,
        ship=ship,
        refuted=refuted,
        sentence=_sentence(treatment, found, ship=ship),
        clauses=found,
    )


def _clause(clause: Clause, found: Effect, look: Look) -> ClauseVerdict:
    metric = clause.metric
    sign = 1 if metric.better == "higher" else -1
    low, high = lower_bound(found, look, sign=sign), -lower_bound(found, look, sign=-sign)
    holds, refuted = low > clause.margin, high < clause.margin
    more = (
        0.0
        if holds
        else one_sided_to_go(found, look, apart=sign * found.difference - clause.margin)
    )
    return ClauseVerdict(
        metric=metric.name,
        by=clause.by,
        holds=holds,
        refuted=refuted,
        at_least=sign * metric.effect(sign * low) if isfinite(low) else -inf,
        more_units=round(more) if isfinite(more) else None,
        sentence=_clause_sentence(clause, found, low=low, high=high, more=more),
    )


def _clause_sentence(clause: Clause, found: Effect, *, low: float, high: float, more: float) -> str:
    """Format the verdict on one clause; `low` and `high` bound the gain."""
    metric, margin = clause.metric, clause.margin
    allowed = amount(metric, margin)
    rises, falls = ("rises", "falls") if metric.better == "higher" else ("falls", "rises")
    if low > margin:
        if clause.by is None:
            return f"{metric.name} {rises} by at least {_changed(metric, low)}"
        if low >= 0:
            return f"{metric.name} is not worse ({allowed} is allowed)"
        return f"{metric.name} {falls} by at most {_changed(metric, low)} ({allowed} is allowed)"
    if high < margin:
        over = "" if clause.by is None else f" by more than the {allowed} that is allowed"
        return f"{metric.name} is worse{over}"
    goal = "better" if clause.by is None else f"within {allowed} of control's"
    if not found.known:
        return f"{metric.name} is not shown to be {goal}: not enough data for an interval"
    end = f"about {rounded(more)} more units" if isfinite(more) else "no end in sight"
    so_far = change(metric, found.difference)
    return f"{metric.name} is not shown to be {goal} (so far {so_far}; {end})"


def _changed(metric: Metric, gain: float) -> str:
    """Format the size of a change by its gain; a time that falls to a half falls by 50 %."""
    difference = gain if metric.better == "higher" else -gain
    return change(metric, difference).lstrip("+−")


def _sentence(treatment: str, clauses: Iterable[ClauseVerdict], *, ship: bool) -> str:
    """Format the decision; refuted or missing clauses come first."""
    if ship:
        return f"ship {treatment}: " + "; ".join(one.sentence for one in clauses)
    against = [one.sentence for one in clauses if one.refuted]
    if against:
        return f"do not ship {treatment}: " + "; ".join(against)
    missing = [one.sentence for one in clauses if not one.holds]
    return f"{treatment} is undecided: " + "; ".join(missing)
