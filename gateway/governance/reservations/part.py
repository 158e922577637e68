"""Reservations as a part: limits and budgets admit a request together."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.governance.budgets.costs import RouteCosts
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import Prepared, RequestPart, RequestSide

if TYPE_CHECKING:
    from strowger_gateway.gateway.stages.generation import Generation
    from strowger_gateway.gateway.stages.stage import Stage
    from strowger_gateway.gateway.surfaces.hot_route import HotRoute


class ReservationsPart(RequestPart):
    """It has no section: it stands after the parts whose rules it applies."""

    name = "reservations"

    def prepare(self, generation: "Generation", before: Prepared | None) -> Prepared:
        return PreparedCosts(RouteCosts(generation.table, generation.experiment_routers))

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        return ReservationsSide(at)


class PreparedCosts(Prepared):
    """costs: what requests of the generation may cost."""

    def __init__(self, costs: RouteCosts) -> None:
        self.costs = costs


def costs_of(prepared: Mapping[str, Prepared]) -> RouteCosts:
    """Return what requests of a generation may cost. prepared: by its parts."""
    found = prepared[ReservationsPart.name]
    assert isinstance(found, PreparedCosts)
    return found.costs


class ReservationsSide(RequestSide[None, None]):
    """rules: the limits, budgets and end users of this process."""

    def __init__(self, at: ProcessContext) -> None:
        from strowger_gateway.gateway.governance.budgets.by_place import RulesByPlace
        from strowger_gateway.gateway.governance.budgets.process_side import BudgetsSide
        from strowger_gateway.gateway.governance.end_users.process_side import EndUsersSide
        from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
        from strowger_gateway.gateway.governance.reservations.stage import Rules

        limits, budgets = at.side(LimitsSide).limits, at.side(BudgetsSide).budgets
        by_place = RulesByPlace(limits, budgets, at.stages_changed)
        self.rules = Rules(limits, budgets, at.side(EndUsersSide).finder, by_place, at.flush)

    def stages(
        self, generation: "Generation", prepared: PreparedCosts, at: "HotRoute"
    ) -> "Sequence[Stage]":
        from strowger_gateway.gateway.governance.reservations.stage import ReservationStage

        if not (self.rules.limits.any or self.rules.budgets.any):
            return ()
        return (ReservationStage(self.rules, prepared.costs, at),)
