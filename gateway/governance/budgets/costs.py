"""What a request may cost at the dearest backend that may answer it."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.governance.budgets.ledger import Cost
from strowger_gateway.gateway.governance.limits.estimate import Estimate
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentRouter
from strowger_gateway.gateway.routing.planning.prices import BackendPrice
from strowger_gateway.gateway.routing.planning.route import Backend, Route, RouteTable

ATTOS: Final = 10**9
"""10⁻¹⁸ US dollars in 10⁻⁹."""
MOST_NEEDED: Final = 2**62
"""More than any budget has; what processes send each other and the store keeps has 64 bits."""
_MOST_KEPT: Final = 4096
"""Names of models and tiers whose prices are remembered; clients choose them."""


class RoutePrices(Struct, frozen=True):
    """The prices of all backends that may answer for a model.

    flat: (prompt, answer) of those that are the same for all prompts, 10⁻¹⁸ US dollars per token,
    without those that are never the dearest. tiered: the others. unpriced: the name of a backend
    without a price, or "". is_one: `input` and `output` are the only prices, as in `flat`.
    search_unit: the dearest, 10⁻¹⁸ US dollars; only rerankers are billed by them.
    """

    flat: tuple[tuple[int, int], ...]
    tiered: tuple[BackendPrice, ...]
    unpriced: str
    is_one: bool
    input: int = 0
    output: int = 0
    search_unit: int = 0

    def most(self, prompt: int, answer: int) -> int:
        """10⁻⁹ US dollars for so many tokens, rounded up."""
        found = max([prompt * one + answer * other for one, other in self.flat], default=0)
        for price in self.tiered:
            prices = price.at(prompt)
            if prices is not None:
                of_answer = prices.output + max(0, prices.reasoning)
                found = max(found, prompt * prices.input + answer * of_answer)
        return -(-found // ATTOS)


class RouteCosts:
    """The prices of one configuration generation, by route."""

    def __init__(self, table: RouteTable, experiments: Mapping[str, ExperimentRouter]) -> None:
        self._table = table
        self._experiments = experiments
        self._known: dict[tuple[str, str, str], RoutePrices] = {}

    def of(self, route: Route, model: str, tokens: Estimate, tier: str = "") -> Cost:
        """The most that a request may cost. model, tier: the requested ones."""
        prices = self.prices(route, model, tier)
        prompt, answer = tokens.prompt or 1, tokens.answer
        if prices.is_one:
            nanos = -(-(prompt * prices.input + answer * prices.output) // ATTOS)
        else:
            nanos = prices.most(prompt, answer)
        if tokens.searches and prices.search_unit:
            nanos += -(-tokens.searches * prices.search_unit // ATTOS)
        needed = prompt + answer
        if nanos > MOST_NEEDED or needed > MOST_NEEDED:
            nanos, needed = min(nanos, MOST_NEEDED), min(needed, MOST_NEEDED)
        return Cost(nanos, needed, tokens.guessed, prices.unpriced)

    def prices(self, route: Route, model: str, tier: str = "") -> RoutePrices:
        """The prices of all backends that may answer a request. model, tier: the requested ones."""
        return self._known.get((route.name, model, tier)) or self._found(route, model, tier)

    def _found(self, route: Route, model: str, tier: str) -> RoutePrices:
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        flat, tiered, unpriced = set[tuple[int, int]](), list[BackendPrice](), ""
        search_unit = 0
        for backend in self._backends(route, set()):
            name = backend.name[:-1] + model if backend.model == "*" else backend.name
            price = backend.prices.of(name)
            if price is None:
                unpriced = unpriced or name
                continue
            price = price.in_tier(tier)
            search_unit = max(search_unit, price.search_unit)
            if price.tiers:
                tiered.append(price)
            elif (prices := price.prices) is not None:
                flat.add((prices.input, prices.output + max(0, prices.reasoning)))
        dearest = [
            one
            for one in sorted(flat)
            if not any(other != one and other[0] >= one[0] and other[1] >= one[1] for other in flat)
        ]
        is_one = len(dearest) == 1 and not tiered
        one = dearest[0] if is_one else (0, 0)
        found = RoutePrices(tuple(dearest), tuple(tiered), unpriced, is_one, *one, search_unit)
        self._known[route.name, model, tier] = found
        return found

    def _backends(self, route: Route, seen: set[str]) -> Iterator[Backend]:
        """All backends of the route, its rules, its experiment and its fallbacks."""
        if route.name in seen:
            return
        seen.add(route.name)
        yield from route.backends
        for rule in route.rules:
            yield from rule.backends
        experiment = self._experiments.get(route.name)
        if experiment is not None:
            for arm in experiment.arms.values():
                yield arm.backend
        others = (*route.fallback, *(name for row in route.error_fallbacks for name in row.routes))
        for name in others:
            other = self._table.routes.get(name)
            if other is not None:
                yield from self._backends(other, seen)
