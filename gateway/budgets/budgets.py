"""The budgets in force in one process: which apply to a request, and what its lease has left."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from gateway.budgets.ledger import Cost, Purse, Purses, Reservation, Short
from gateway.budgets.messages import Recorded
from gateway.budgets.rules import allowed, subject_for, unknown_nanos
from gateway.config.schema.budgets import Budget, UseModel
from gateway.recording.rows_from_request import is_complete
from gateway.store.rows import AttemptRow
from gateway.store.spend_rows import Amount, Payer, Spend, amount_of, slot_of
from gateway.telemetry.access_log import AccessLine

_MOST_KEPT: Final = 4096
"""Combinations of key and model whose purses are remembered; clients choose model names."""


class BudgetAsker(Protocol):
    """Another process that leases from the accounts."""

    async def ask(self, purses: Purses, cost: Cost) -> Reservation | tuple[Short, ...]:
        """Reserve a request that lacks room here. Raises Unavailable without an answer."""
        ...


class Budgets:
    """The budgets of one process, over all generations of its configuration.

    any: whether there are budgets. asker: where a request that lacks room asks for more.
    holds: what the requests have reserved that are not settled yet, by their ids.
    refused, moved: requests refused, and sent to a cheaper model, by budget.
    writer: of this process's records.
    """

    asker: BudgetAsker

    def __init__(self, budgets: tuple[Budget, ...], writer: str) -> None:
        self.writer = writer
        self.holds: dict[str, Reservation] = {}
        self.refused: dict[str, int] = {}
        self.moved: dict[str, int] = {}
        self._purses: dict[tuple[str, str], Purse] = {}
        self._found: dict[tuple[str, str, str, str, str], Purses | None] = {}
        self._recorded: list[Recorded] = []
        self.configure(budgets)

    def configure(self, budgets: tuple[Budget, ...]) -> None:
        """Apply these budgets from now on. What is leased stays, unless its unit changes."""
        self._budgets = budgets
        self.any = bool(budgets)
        self.named = {budget.name: budget for budget in budgets}
        self._found.clear()
        for place, purse in tuple(self._purses.items()):
            budget = self.named.get(purse.budget)
            if budget is None or (budget.usd is not None) != purse.usd:
                del self._purses[place]
            else:
                purse.limit, purse.unpriced = allowed(budget), unknown_nanos(budget)

    def of(self, key: str, route: str, model: str, team: str = "", user: str = "") -> Purses | None:
        """The accounts of a request; `None` if no budget applies.

        key: the name of the key. team, user: of the key. route, model: the model's own name, and
        the requested one; both the model's own if a budget chose it.
        """
        place = (key, route, model, team, user)
        try:
            return self._found[place]
        except KeyError:
            pass
        if len(self._found) >= _MOST_KEPT:
            self._found.clear()
        hard, soft = list[Purse](), list[Purse]()
        for budget in self._budgets:
            subject = subject_for(budget, Payer(key, team, user, route, model))
            if subject is not None:
                rule = budget.on_exceeded
                there = isinstance(rule, UseModel) and rule.use_model == route
                (soft if there else hard).append(self._purse(budget, subject))
        purses = self._found[place] = Purses(hard, soft) if hard or soft else None
        return purses

    def purse(self, name: str, subject: str) -> Purse | None:
        """The purse of an account; `None` if the budget does not exist."""
        budget = self.named.get(name)
        return None if budget is None else self._purse(budget, subject)

    def purses(self) -> Sequence[Purse]:
        """All that were ever needed."""
        return tuple(self._purses.values())

    def finished(
        self, lines: Sequence[AccessLine], attempts: Iterable[AttemptRow], batch: int
    ) -> None:
        """Settle requests by what their records say.

        attempts: of the requests with several. batch: the number of the batch of records.
        """
        several: dict[str, Amount] = {}
        for row in attempts:
            if row.source and row.role != "mirror":
                used = amount_of(row.cost_usd, row.prompt_tokens, row.completion_tokens)
                several[row.request_id] = several.get(row.request_id, Amount()) + used
        # Lists and tuples of plain values, because Payer and Amount cost more than the addition.
        sums: dict[tuple[int, str, str, str, str, str], list[int]] = {}
        for line in lines:
            used = several.get(line.request_id)
            if used is None and line.usage_source and is_complete(line):
                used = amount_of(line.cost_usd, line.prompt_tokens, line.completion_tokens)
            hold = self.holds.pop(line.request_id, None)
            if hold is not None:
                hold.settle(used)
            if used is not None:
                model = line.route if line.budget else line.model
                place = slot_of(line.time), line.key, line.team, line.user, line.route, model
                total = sums.get(place)
                if total is None:
                    sums[place] = [used.nanos, used.tokens, used.unpriced]
                else:
                    total[0] += used.nanos
                    total[1] += used.tokens
                    total[2] += used.unpriced
        if sums:
            spend = tuple(
                [Spend(slot, Payer(*who), Amount(*total)) for (slot, *who), total in sums.items()]
            )
            self._recorded.append(Recorded(batch, spend))

    def take_recorded(self) -> tuple[Recorded, ...]:
        """What was recorded since the last call."""
        taken, self._recorded = tuple(self._recorded), []
        return taken

    def count_refused(self, name: str) -> None:
        self.refused[name] = self.refused.get(name, 0) + 1

    def count_moved(self, name: str) -> None:
        self.moved[name] = self.moved.get(name, 0) + 1

    def _purse(self, budget: Budget, subject: str) -> Purse:
        place = budget.name, subject
        purse = self._purses.get(place)
        if purse is None:
            purse = self._purses[place] = Purse(
                *place, budget.usd is not None, allowed(budget), unknown_nanos(budget)
            )
        return purse
