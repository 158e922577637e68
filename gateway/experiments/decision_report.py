"""The decision in a report: which clauses hold, which do not yet, and the units to go."""

from math import isfinite

from msgspec import Struct

from strowger_gateway.gateway.statistics.decision import Decision


class ClauseReport(Struct, frozen=True, kw_only=True):
    """One clause of the decision.

    by:         how much worse the metric may be; `None`: it must be better.
    at_least:   always valid lower bound of the improvement; below 0: worse; for times relative,
                0.2 = 20 % faster. `None`: unknown.
    more_units: approximate number until it holds if the estimate stays; `None`: no end in sight.
    """

    metric: str
    by: float | None
    holds: bool
    refuted: bool
    at_least: float | None
    more_units: int | None
    sentence: str


class DecisionReport(Struct, frozen=True, kw_only=True):
    """The decision on one variant. ship: every clause holds. refuted: at least one cannot hold."""

    variant: str
    ship: bool
    refuted: bool
    sentence: str
    clauses: tuple[ClauseReport, ...]


def decision_report(decision: Decision) -> DecisionReport:
    return DecisionReport(
        variant=decision.treatment,
        ship=decision.ship,
        refuted=decision.refuted,
        sentence=decision.sentence,
        clauses=tuple(
            ClauseReport(
                metric=clause.metric,
                by=clause.by,
                holds=clause.holds,
                refuted=clause.refuted,
                at_least=clause.at_least if isfinite(clause.at_least) else None,
                more_units=clause.more_units,
                sentence=clause.sentence,
            )
            for clause in decision.clauses
        ),
    )
