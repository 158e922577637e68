"""What applies to a request, looked up once for all limits, budgets and prices."""

from collections.abc import Callable
from math import gcd
from typing import Final

from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.governance.budgets.costs import ATTOS, RouteCosts
from strowger_gateway.gateway.governance.budgets.ledger import BudgetLeases
from strowger_gateway.gateway.governance.limits.ledger import NEVER, Accounts
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.limits.scope import Place
from strowger_gateway.gateway.routing.planning.route import NO_VALUES, Route

_MOST_KEPT: Final = 4096
"""Combinations of key and model that are remembered; clients choose model names."""


class PlaceRules:
    """What applies to the requests of one place.

    accounts, leases: `None` if no limit or budget applies. costs: that the prices are of.
    simple: the tokens of a chat are those that it names, and there is one price, known, and no
    more than one budget of each unit. input, output: that price per token, in the largest unit in
    which both are whole. unit: how many of these are 10⁻⁹ US dollars.
    most: tokens that are reserved as they are; limits reserve fewer for a guess that is larger.
    """

    __slots__ = ("accounts", "costs", "input", "leases", "most", "output", "simple", "unit")

    def __init__(
        self,
        accounts: Accounts | None,
        leases: BudgetLeases | None,
        costs: RouteCosts,
        route: Route,
        model: str,
    ) -> None:
        self.accounts, self.leases, self.costs = accounts, leases, costs
        self.simple = route.defaults is NO_VALUES and route.overrides is NO_VALUES
        self.most = NEVER if accounts is None or not accounts.tokens else accounts.least
        self.input = self.output = 0
        self.unit = 1
        if leases is not None:
            prices = costs.prices(route, model)
            # Small numbers are multiplied faster, and most prices are whole 10⁻⁹ dollars.
            whole = gcd(prices.input, prices.output, ATTOS)
            self.input, self.output = prices.input // whole, prices.output // whole
            self.unit = ATTOS // whole
            self.simple &= leases.simple and prices.is_one and not prices.unpriced


class RulesByPlace:
    """The rules of one process, until the limits or budgets change.

    known: by place, of one generation of the configuration, or of an earlier one.
    """

    def __init__(
        self, limits: RequestLimits, budgets: Budgets, changed: Callable[[], object] = tuple
    ) -> None:
        """changed: called when limits or budgets have changed."""
        self.known: dict[Place, PlaceRules] = {}
        self._limits = limits
        self._budgets = budgets
        self._changed = changed
        limits.on_change = budgets.on_change = self._forget

    def _forget(self) -> None:
        self.known.clear()
        self._changed()

    def find(self, place: Place, route: Route, costs: RouteCosts) -> PlaceRules:
        """Look everything up, and remember it."""
        limits, budgets = self._limits, self._budgets
        accounts = limits.of(place) if limits.any else None
        leases = budgets.of(place) if budgets.any else None
        if len(self.known) >= _MOST_KEPT:
            self.known.clear()
        found = self.known[place] = PlaceRules(accounts, leases, costs, route, place[2])
        return found
