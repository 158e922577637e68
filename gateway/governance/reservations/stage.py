"""Reserve a request under every limit and budget that applies to it, or under none of them.

1. The end user is named, if a rule holds end users apart.
2. `RulesByPlace` has what applies to its key, team, user, plan and model: one look-up.
3. Most requests take what they need at once: tokens that they name, one price, room everywhere.
4. Any other is estimated (`_reserve_any`); still without waiting.
5. What lacks room waits for it, moves to a cheaper model, or is refused (`_find_room`).
6. At the end, `leave` settles what limits hold by the tokens that were really used. What budgets
   hold is settled when the request is recorded, with its cost.
"""

from collections.abc import Awaitable, Callable
from time import monotonic_ns
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.governance.budgets.by_place import PlaceRules, RulesByPlace
from strowger_gateway.gateway.governance.budgets.costs import RouteCosts
from strowger_gateway.gateway.governance.budgets.ledger import Reservation
from strowger_gateway.gateway.governance.end_users.end_users import EndUserFinder
from strowger_gateway.gateway.governance.limits.estimate import (
    chat_tokens,
    expected_tokens,
    requested_tier,
    tokens_used,
)
from strowger_gateway.gateway.governance.limits.headers import admitted_headers
from strowger_gateway.gateway.governance.limits.ledger import Accounts, Hold
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.limits.scope import Place as Whose
from strowger_gateway.gateway.governance.reservations.budget_room import find_money
from strowger_gateway.gateway.governance.reservations.limit_room import find_room
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.gateway.surfaces.hot_route import HotRoute

NO_HOLD: Final = Hold(Accounts(()), 0, ())
"""Of a request that no limit applies to."""


class Rules(Struct, frozen=True, eq=False):
    """The limits, budgets and end users of one process, over all generations.

    flush: settles what requests that have ended have cost.
    """

    limits: RequestLimits
    budgets: Budgets
    end_users: EndUserFinder
    by_place: RulesByPlace
    flush: Callable[[], None]


class ReservationStage(BaseStage):
    """Of one route and generation."""

    place = Place.RESERVE
    leaves = True

    def __init__(self, rules: Rules, costs: RouteCosts, at: HotRoute) -> None:
        """costs: of the generation. at: one that only counts tokens reserves none, and no money."""
        self._rules = rules
        self._limits, self._budgets, self._end_users = rules.limits, rules.budgets, rules.end_users
        self._known = rules.by_place.known
        self._costs = costs
        self._counts = at.counts
        self._anthropic = at.surface.name == "anthropic"

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """Raises InvalidRequest if a rule needs the end user, and the request names none or a wrong
        one; LimitExceeded, BudgetExceeded, PriceUnknown if there is no room; ClientGone if the
        client leaves while the request waits. A request that a budget refuses has counted.
        """
        if self._end_users.any:
            record, sent = request.record, request.request
            assert sent is not None
            record.end_user = self._end_users.find(record, sent, request.exchange.fields)
        hold = self._reserve_now(request)
        if hold is None:
            return self._find_room(request)
        request.slots[self.slot] = hold
        return None

    def leave(self, request: RequestContext) -> None:
        """Settle what limits hold by what the request has used."""
        hold = request.slots[self.slot]
        if type(hold) is Hold:
            hold.settle_once(tokens_used(request.record))

    def _reserve_now(self, request: RequestContext) -> Hold | None:
        """Return what the limits hold; `None`, and nothing is reserved, if one lacks room here."""
        record, sent, route = request.record, request.request, request.route
        assert sent is not None
        assert route is not None
        place: Whose = (
            record.caller,
            route.name,
            sent.model,
            record.team,
            record.user,
            record.end_user,
            record.plan,
        )
        rules = self._known.get(place)
        if rules is None or rules.costs is not self._costs:
            rules = self._rules.by_place.find(place, route, self._costs)
        tokens = chat_tokens(sent) if rules.simple and not self._counts else None
        if tokens is None or self._limits.queue.waiting:
            return self._reserve_any(request, rules)
        prompt, answer = tokens
        needed, leases = prompt + answer, rules.leases
        if needed > rules.most:
            return self._reserve_any(request, rules)
        if leases is not None:
            nanos = -(-(prompt * rules.input + answer * rules.output) // rules.unit)
            money, counted = leases.money, leases.tokens
            if money.room < nanos or counted.room < needed:
                return self._reserve_any(request, rules)
            money.room -= nanos
            counted.room -= needed
            self._budgets.holds[record.request_id] = Reservation(leases, nanos, needed)
        accounts = rules.accounts
        if accounts is None:
            return NO_HOLD
        headers = request.response.own_headers
        if accounts.leased or self._anthropic:
            hold = accounts.reserve(needed, monotonic_ns())
            if hold is not None:
                admitted_headers(accounts, headers, self._anthropic)
        else:
            hold = accounts.reserve(needed, monotonic_ns(), headers)
        if hold is None and leases is not None:
            self._budgets.holds.pop(record.request_id).settle(None)
        return hold

    def _reserve_any(self, request: RequestContext, rules: PlaceRules) -> Hold | None:
        """The same for a request of any kind, with all that may apply to it."""
        sent, route = request.request, request.route
        assert sent is not None
        assert route is not None
        accounts, leases = rules.accounts, None if self._counts else rules.leases
        needed, reservation = 0, None
        if leases is not None or (accounts is not None and accounts.tokens and not self._counts):
            tokens = expected_tokens(sent, route)
            if leases is not None:
                cost = rules.costs.of(route, sent.model, tokens, requested_tier(sent))
                reservation = None if cost.unpriced and leases.strict else leases.reserve(cost)
                if reservation is None:
                    return None
            if accounts is not None:
                needed = tokens.prompt + tokens.answer
                if needed > accounts.least:
                    needed = tokens.within(accounts.least)
        hold = NO_HOLD
        if accounts is not None:
            waiting = self._limits.queue.waiting
            found = None if waiting else accounts.reserve(needed, monotonic_ns())
            if found is None:
                if reservation is not None:
                    reservation.settle(None)
                return None
            hold = found
            admitted_headers(accounts, request.response.own_headers, self._anthropic)
        if reservation is not None:
            self._budgets.holds[request.record.request_id] = reservation
        return hold

    async def _find_room(self, request: RequestContext) -> None:
        """The same for a request that may have to wait, or to be refused.

        A budget that is used up may send it to a cheaper model.
        """
        record, sent, route = request.record, request.request, request.route
        assert sent is not None
        assert route is not None
        limits, whose = self._limits, (record.team, record.user, record.end_user, record.plan)
        accounts = (
            limits.of((record.caller, route.name, sent.model, *whose)) if limits.any else None
        )
        if accounts is not None:
            needed = 0
            if accounts.tokens and not self._counts:
                needed = expected_tokens(sent, route).within(accounts.least)
            hold = await find_room(limits, accounts, needed, record, request.response)
            request.slots[self.slot] = hold
            admitted_headers(accounts, request.response.own_headers, self._anthropic)
        if self._budgets.any and not self._counts:
            await find_money(self._budgets, self._costs, self._rules.flush, request)
