"""The limits and budgets that a request is held to, and which of them would refuse it."""

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.schema.budgets import Budget, UseModel
from strowger_gateway.gateway.config.schema.limits import Limit
from strowger_gateway.gateway.console.explain.explanation import (
    ExplainedLimit,
    Explanation,
    refusal,
)
from strowger_gateway.gateway.console.explain.query import Explained
from strowger_gateway.gateway.governance.budgets.costs import RouteCosts
from strowger_gateway.gateway.governance.budgets.ledger import BudgetLease, Cost, Shortfall
from strowger_gateway.gateway.governance.budgets.refusals import (
    budget_exceeded,
    cheaper_model,
    lasting,
    price_unknown,
)
from strowger_gateway.gateway.governance.budgets.report import BudgetStanding
from strowger_gateway.gateway.governance.budgets.rules import (
    allowed,
    subject_for,
    unit_of,
    unknown_nanos,
)
from strowger_gateway.gateway.governance.limits.estimate import expected_tokens, requested_tier
from strowger_gateway.gateway.governance.limits.ledger import LimitRefusal
from strowger_gateway.gateway.governance.limits.limits import SECOND
from strowger_gateway.gateway.governance.limits.refusals import exceeded
from strowger_gateway.gateway.governance.limits.scope import Whose, subjects_of
from strowger_gateway.gateway.governance.limits.standing import (
    QUANTITIES,
    LimitPlace,
    LimitStanding,
)
from strowger_gateway.gateway.storage.sql.spend_rows import NANOS, Payer
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest

EndUserOf = Callable[[tuple[str, str, str, str, str, str]], str]
"""Return the account of the request's end user by EndUserFinder's place. Raises InvalidRequest."""


class Held(Struct, frozen=True, kw_only=True):
    """The accounts of one request.

    end_user: the account's name of its end user, "" if no rule needs one.
    places:   of its limits. tokens: that they reserve. cost: `None` if no money is reserved.
    refused:  why its end user is not accepted.
    """

    end_user: str = ""
    limits: tuple[Limit, ...] = ()
    places: tuple[LimitPlace, ...] = ()
    tokens: int = 0
    budgets: tuple[tuple[Budget, str], ...] = ()
    cost: Cost | None = None
    whose: Whose = Whose(key="")
    route: str = ""
    refused: InvalidRequest | None = None


def held_to(
    seen: Explained,
    limits: Sequence[Limit],
    budgets: Sequence[Budget],
    costs: RouteCosts,
    end_user_of: EndUserOf,
) -> Held:
    """Find what a request is held to. limits, budgets: that may be about its key."""
    caller, route, request = seen.caller, seen.route, seen.parsed.request
    if route is None or not (limits or budgets):
        return Held()
    whose = Whose(key=caller.name, team=caller.team, user=caller.user, plan=caller.plan)
    names = route.name, request.model
    try:
        end_user = end_user_of((caller.name, *names, caller.team, caller.user, caller.plan))
    except InvalidRequest as exc:
        return Held(whose=whose, refused=exc)
    whose = replace(whose, end_user=end_user)
    found: list[tuple[Limit, str]] = []
    for limit in limits:
        subjects = subjects_of(limit, whose) if covers(limit.models, *names) else None
        if subjects is not None and not subjects[1]:
            found.append((limit, subjects[0]))
    estimate = expected_tokens(request, route)
    least = min([one.tokens for one, _ in found if one.tokens is not None], default=0)
    counts = seen.parsed.counts
    tokens = 0 if counts or not least else estimate.within(least)
    payer = Payer(caller.name, caller.team, caller.user, *names, end_user)
    paying = [] if counts else [(one, subject_for(one, payer)) for one in budgets]
    return Held(
        end_user=end_user,
        limits=tuple(limit for limit, _ in found),
        places=tuple(LimitPlace(one.name, subject, tokens=tokens) for one, subject in found),
        tokens=tokens,
        budgets=tuple((one, subject) for one, subject in paying if subject is not None),
        cost=costs.of(route, request.model, estimate, requested_tier(request)),
        whose=whose,
        route=route.name,
    )


def with_limits(
    seen: Explanation,
    held: Held,
    standings: Sequence[LimitStanding] | None,
    budgets: Sequence[BudgetStanding] | None,
) -> Explanation:
    """The explanation with its limits and budgets, and the refusal by one of them.

    standings, budgets: what is used; `None` is unknown, and then only what is larger than the whole
    limit or budget is refused.
    """
    if held.refused is not None:
        refused = seen.refused or refusal(held.refused)
        return replace(seen, refused=refused)
    of_limits, by_limit = _limits(held, standings)
    of_budgets, by_budget = _budgets(held, budgets)
    error = by_limit or by_budget
    refused = seen.refused or (None if error is None else refusal(error))
    return replace(seen, end_user=held.end_user, limits=(*of_limits, *of_budgets), refused=refused)


def _limits(
    held: Held, standings: Sequence[LimitStanding] | None
) -> tuple[list[ExplainedLimit], GatewayError | None]:
    used = {(one.limit, one.subject, one.quantity): one for one in standings or ()}
    found: list[ExplainedLimit] = []
    refusals: list[LimitRefusal] = []
    for limit, place in zip(held.limits, held.places, strict=True):
        for quantity in QUANTITIES:
            most: int | None = getattr(limit, quantity)
            need = held.tokens if quantity == "tokens" else 1
            if most is None or not need:
                continue
            standing = used.get((limit.name, place.subject, quantity))
            left = None if standing is None else standing.allowed - standing.used
            lacking = need > most or (left is not None and need > left)
            wait_s: float | None = None
            if lacking and need <= most and standing is not None:
                wait_s = standing.room_in_s or 0.0
            waits = lacking and wait_s is not None and 0 < limit.wait_s >= wait_s
            if lacking and not waits:
                wait = None if wait_s is None else round(wait_s * SECOND)
                refusals.append(LimitRefusal(limit.name, limit.per, quantity, most, wait))
            found.append(
                ExplainedLimit(
                    kind="limit",
                    name=limit.name,
                    subject=place.subject,
                    quantity=quantity,
                    per="" if quantity == "concurrent" else limit.per,
                    needs=need,
                    allowed=most,
                    left=left,
                    refuses=lacking and not waits,
                    waits_s=(wait_s or limit.wait_s) if waits else None,
                )
            )
    if not refusals:
        return found, None
    return found, exceeded(max(refusals, key=LimitRefusal.lasting), held.tokens)


def _budgets(
    held: Held, standings: Sequence[BudgetStanding] | None
) -> tuple[list[ExplainedLimit], GatewayError | None]:
    cost = held.cost
    if cost is None:
        return [], None
    known = {(one.budget, one.subject): one for one in standings or ()}
    found: list[ExplainedLimit] = []
    short: list[Shortfall] = []
    strict = ""
    for budget, subject in held.budgets:
        rule, scale = budget.on_exceeded, 1 if budget.usd is None else NANOS
        soft = isinstance(rule, UseModel) and rule.use_model == held.route
        strict = strict or ("" if soft or not _is_strict(budget, cost) else budget.name)
        most = allowed(budget)
        lease = BudgetLease(
            budget.name, subject, most, unknown_nanos(budget), usd=budget.usd is not None
        )
        need, standing = lease.need(cost), known.get((budget.name, subject))
        left = None if standing is None else round(standing.left * scale)
        lacking = not soft and need > (most if left is None else left)
        if lacking:
            short.append(
                Shortfall(
                    budget=budget.name,
                    limit=most,
                    left=most if left is None else left,
                    need=need,
                    spent=0 if standing is None else round(standing.spent * scale),
                    resets=None if standing is None else standing.resets,
                )
            )
        found.append(
            ExplainedLimit(
                kind="budget",
                name=budget.name,
                subject=subject,
                quantity=unit_of(budget),
                per="" if budget.per == "total" else budget.per,
                needs=need / scale,
                allowed=most / scale,
                left=None if left is None else left / scale,
                refuses=lacking and not isinstance(rule, UseModel),
                moves_to=rule.use_model if lacking and isinstance(rule, UseModel) else "",
            )
        )
    named: Mapping[str, Budget] = {budget.name: budget for budget, _ in held.budgets}
    if strict:
        return found, price_unknown(strict, cost.unpriced)
    if not short or cheaper_model(short, named)[1]:
        return found, None
    last = max(short, key=lasting)
    return found, budget_exceeded(named[last.budget], last, time.time())


def _is_strict(budget: Budget, cost: Cost) -> bool:
    """Whether the budget refuses the request because a price is unknown."""
    return bool(cost.unpriced) and budget.usd is not None and unknown_nanos(budget) is None
