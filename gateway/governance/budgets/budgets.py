"""The budgets in force in one process: which apply to a request, and what its lease has left."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from strowger_gateway.gateway.config.schema.budgets import Budget, UseModel
from strowger_gateway.gateway.governance.budgets.ledger import (
    BudgetLease,
    BudgetLeases,
    Cost,
    Reservation,
    Shortfall,
)
from strowger_gateway.gateway.governance.budgets.messages import Recorded
from strowger_gateway.gateway.governance.budgets.rules import allowed, subject_for, unknown_nanos
from strowger_gateway.gateway.governance.leases.messages import Place as LeasePlace
from strowger_gateway.gateway.governance.limits.scope import Place, RuleIndex
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.observability.recording.rows_from_request import is_complete
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, LineGroup
from strowger_gateway.gateway.storage.sql.spend_rows import (
    MOST_TOKENS,
    MOST_USD,
    NANOS,
    SLOT_S,
    Amount,
    Payer,
    Spend,
    amount_of,
)

_MANY_LEASES: Final = 10_000
"""From this number on, empty leases are dropped before one is added."""

_MOST_KEPT: Final = 4096
"""Combinations of key and model whose leases are remembered; clients choose model names."""


class BudgetAsker(Protocol):
    """Another process that leases from the accounts."""

    async def ask(self, leases: BudgetLeases, cost: Cost) -> Reservation | tuple[Shortfall, ...]:
        """Reserve a request that lacks room here. Raises Unavailable without an answer."""
        ...


class Budgets:
    """The budgets of one process, over all generations of its configuration.

    configured: all of them. any: whether there are some.
    asker: where a request that lacks room asks for more.
    busy: the leases with an amount, or something to report.
    holds: what the requests have reserved that are not settled yet, by their ids.
    refused, moved: requests refused, and sent to a cheaper model, by budget.
    writer: of this process's records.
    on_change: called when what `of` has returned must not be used any more.
    """

    asker: BudgetAsker

    def __init__(self, budgets: tuple[Budget, ...], writer: str) -> None:
        self.writer = writer
        self.on_change: Callable[[], object] = tuple
        self.holds: dict[str, Reservation] = {}
        self.refused: dict[str, int] = {}
        self.moved: dict[str, int] = {}
        self._leases: dict[tuple[str, str], BudgetLease] = {}
        self._most = _MANY_LEASES
        self.busy = set[BudgetLease]()
        self._found: dict[Place, BudgetLeases | None] = {}
        self._recorded: list[Recorded] = []
        self.configure(budgets)

    def configure(self, budgets: tuple[Budget, ...]) -> None:
        """Apply these budgets from now on. What is leased stays, unless its unit changes."""
        self.configured = budgets
        self._budgets = RuleIndex(budgets)
        self.any = bool(budgets)
        self._apart = any(budget.each == "end_user" for budget in budgets)
        self.named = self._budgets.named
        self._forget()
        for place, lease in tuple(self._leases.items()):
            budget = self.named.get(lease.budget)
            if budget is None or (budget.usd is not None) != lease.usd:
                del self._leases[place]
            else:
                lease.limit, lease.unpriced = allowed(budget), unknown_nanos(budget)
        self.busy.intersection_update([one for one in self.busy if self._counts(one)])

    def of(self, place: Place) -> BudgetLeases | None:
        """The accounts of a request; `None` if no budget applies.

        Its model is the route's own if a budget chose it.
        """
        try:
            return self._found[place]
        except KeyError:
            pass
        key, route, model, team, user, end_user, _ = place
        if len(self._found) >= _MOST_KEPT:
            self._found.clear()
        payer = Payer(key, team, user, route, model, end_user if self._apart else "")
        hard, soft = list[BudgetLease](), list[BudgetLease]()
        for budget in self._budgets.of_key(key):
            subject = subject_for(budget, payer)
            if subject is not None:
                rule = budget.on_exceeded
                there = isinstance(rule, UseModel) and rule.use_model == route
                (soft if there else hard).append(self._lease(budget, subject))
        leases = self._found[place] = (
            BudgetLeases(payer, hard, soft, self.busy) if hard or soft else None
        )
        return leases

    def rules_of(self, key: str) -> Sequence[Budget]:
        """The budgets that may be about a key, in their order."""
        return self._budgets.of_key(key)

    def lease(self, name: str, subject: str) -> BudgetLease | None:
        """The lease of an account; `None` if the budget does not exist."""
        budget = self.named.get(name)
        return None if budget is None else self._lease(budget, subject)

    def leased(self, place: LeasePlace) -> BudgetLease | None:
        """The lease of a place; `None` if no budget of this name counts in its unit."""
        lease = self.lease(place[0], place[1])
        return None if lease is None or lease.place != place else lease

    def wake(self, leases: BudgetLeases) -> None:
        """Report these again: a request that has reserved of them has ended."""
        self.busy.update(leases.all)

    def finished(self, ended: EndedRequests) -> None:
        """Settle requests by what their records say."""
        several: dict[str, Amount] = {}
        for row in ended.attempts:
            if row.usage_source and row.role != "mirror":
                used = amount_of(row.cost_usd, row.prompt_tokens, row.completion_tokens)
                several[row.request_id] = several.get(row.request_id, Amount()) + used
        slots: dict[int, _Totals] = {}
        pop = self.holds.pop
        for group in ended.groups:
            lines, first = group.lines, group.lines[0]
            totals = slots.setdefault(int(first.time // SLOT_S) * SLOT_S, _Totals())
            holds = [pop(line.request_id, None) for line in lines]
            if several or not first.usage_source or len(first.attempts) != 1:
                for line, hold in zip(lines, holds, strict=True):
                    self._finish(line, hold, several.get(line.request_id), totals)
            else:  # the lines cover their attempts: one that was refused has used nothing
                self._finish_alike(group, holds, totals)
        for totals in slots.values():
            for place in totals:
                if isinstance(place, BudgetLeases):
                    self.wake(place)
        spend = [
            total.settled(slot, place)
            for slot, totals in slots.items()
            for place, total in totals.items()
        ]
        if spend:
            self._recorded.append(Recorded(ended.batch, tuple(spend)))

    @property
    def has_recorded(self) -> bool:
        """Whether `take_recorded` returns something."""
        return bool(self._recorded)

    def take_recorded(self) -> tuple[Recorded, ...]:
        """What was recorded since the last call."""
        taken, self._recorded = tuple(self._recorded), []
        return taken

    def count_refused(self, name: str) -> None:
        self.refused[name] = self.refused.get(name, 0) + 1

    def count_moved(self, name: str) -> None:
        self.moved[name] = self.moved.get(name, 0) + 1

    def _forget(self) -> None:
        """Look leases up again."""
        self._found.clear()
        self.on_change()

    def _lease(self, budget: Budget, subject: str) -> BudgetLease:
        place = budget.name, subject
        lease = self._leases.get(place)
        if lease is None:
            if len(self._leases) >= self._most:
                self._drop_unused()
            lease = self._leases[place] = BudgetLease(
                *place, allowed(budget), unknown_nanos(budget), usd=budget.usd is not None
            )
        return lease

    def _drop_unused(self) -> None:
        """Drop empty leases; those that requests have reserved of are reported still.

        The next time is when there are twice as many.
        """
        self._forget()
        busy = {(one.budget, one.subject) for one in self.busy}
        self._leases = {place: one for place, one in self._leases.items() if place in busy}
        self._most = max(_MANY_LEASES, 2 * len(self._leases))

    def _counts(self, lease: BudgetLease) -> bool:
        """Whether its budget exists, in its unit."""
        budget = self.named.get(lease.budget)
        return budget is not None and (budget.usd is not None) == lease.usd

    def _finish_alike(
        self, group: LineGroup, holds: Sequence[Reservation | None], to: "_Totals"
    ) -> None:
        """Settle requests whose lines cover their attempts. holds: of the lines."""
        simple = [hold for hold in holds if hold is not None and hold.needs is None]
        if len(simple) == len(holds) and len({hold.leases for hold in simple}) == 1:
            _add(group.lines, simple, group.prompt_tokens + group.completion_tokens, to)
            return
        alike: dict[BudgetLeases, tuple[list[AccessLine], list[Reservation]]] = {}
        for line, hold in zip(group.lines, holds, strict=True):
            if hold is None or hold.needs is not None:
                self._finish(line, hold, None, to)
                continue
            found = alike.get(hold.leases)
            if found is None:
                found = alike[hold.leases] = [], []
            found[0].append(line)
            found[1].append(hold)
        for lines, own in alike.values():
            tokens = sum([(one.prompt_tokens or 0) + (one.completion_tokens or 0) for one in lines])
            _add(lines, own, tokens, to)

    def _finish(
        self, line: AccessLine, hold: Reservation | None, used: Amount | None, to: "_Totals"
    ) -> None:
        """Settle one request. used: by its attempts, if there were several."""
        if hold is not None:
            self.wake(hold.leases)
        _finish(line, hold, used, to)


class _Total:
    """What requests of one payer in one slot have used, and what those of leases had reserved.

    A class with slots: setting a field of a Struct takes four times as long (ADR 16).
    """

    __slots__ = ("nanos", "reserved_nanos", "reserved_tokens", "tokens", "unpriced")

    def __init__(self) -> None:
        self.nanos = self.tokens = self.unpriced = 0
        self.reserved_nanos = self.reserved_tokens = 0

    def settled(self, slot: int, place: BudgetLeases | Payer) -> Spend:
        """Settle all requests at once; return what they have used."""
        used = Amount(self.nanos, self.tokens, self.unpriced)
        if isinstance(place, Payer):
            return Spend(slot, place, used)
        place.settle(Amount(self.reserved_nanos, self.reserved_tokens), used)
        return Spend(slot, place.payer, used)


_Totals = dict[BudgetLeases | Payer, _Total]


def _add(
    lines: Sequence[AccessLine], holds: Sequence[Reservation], tokens: int, to: _Totals
) -> None:
    """Add what requests that have reserved of the same leases have used: `amount_of` written out.

    tokens: of all of them.
    """
    leases = holds[0].leases
    total = to.get(leases)
    if total is None:
        total = to[leases] = _Total()
    known = [
        round((cost if cost < MOST_USD else MOST_USD) * NANOS)  # noqa: FURB136  no call
        for line in lines
        if (cost := line.cost_usd) is not None
    ]
    if tokens > MOST_TOKENS:
        used = [(line.prompt_tokens or 0) + (line.completion_tokens or 0) for line in lines]
        tokens = sum([min(one, MOST_TOKENS) for one in used])
    total.nanos += sum(known)
    total.unpriced += len(lines) - len(known)
    total.tokens += tokens
    total.reserved_nanos += sum([hold.nanos for hold in holds])
    total.reserved_tokens += sum([hold.tokens for hold in holds])


def _finish(line: AccessLine, hold: Reservation | None, used: Amount | None, to: _Totals) -> None:
    """Settle one request. used: by its attempts, if there were several."""
    if used is None and line.usage_source and is_complete(line):
        used = amount_of(line.cost_usd, line.prompt_tokens, line.completion_tokens)
    if hold is not None:
        hold.settle(used)
    if used is not None:
        model = line.route if line.budget else line.model
        payer = Payer(line.key, line.team, line.user, line.route, model, line.end_user)
        total = to.get(payer)
        if total is None:
            total = to[payer] = _Total()
        total.nanos += used.nanos
        total.tokens += used.tokens
        total.unpriced += used.unpriced
