"""What is spent and leased of each budget, as the leader knows it.

Spent is what the records in the store add up to, and what was recorded and is not there yet: the
journal. Both are kept by payer and time, so budgets can be changed, or read again, at any moment.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.governance.budgets.calendar import Period
from strowger_gateway.gateway.governance.budgets.messages import Recorded
from strowger_gateway.gateway.governance.budgets.rules import (
    allowed,
    counted,
    period_at,
    subject_for,
)
from strowger_gateway.gateway.governance.leases.pool import Loan
from strowger_gateway.gateway.governance.limits.scope import RuleIndex, end_user_of
from strowger_gateway.gateway.storage.sql.spend_rows import Amount, Payer, Spend, SpendReading

IDLE_S: Final = 600.0
"""Accounts of end users of whom no process holds anything, and who lacked no room for so long, are
forgotten; what they have spent is summed up again when they are needed."""

MOST_OPENED: Final = 1000
"""Budgets up to which all have an account at once; beyond, those of keys with the first request."""


class BudgetAccount(Struct, eq=False):
    """One budget of one subject, in tokens or 10⁻⁹ US dollars.

    known:   its spend was read from the store. stored: the sum of the records there, in this
             period. pending: of those in the journal.
    reserved: what is lent to the processes of this gateway, and not spent.
    loans:   of each worker; what a worker that died may have used is under a negative number.
    held:    what this gateway holds in the store; others: what other gateways hold.
    asked_at: when it lacked room last, seconds of the monotonic clock.
    """

    budget: Budget
    subject: str
    limit: int
    period: Period
    known: bool = False
    stored: int = 0
    pending: int = 0
    reserved: int = 0
    loans: dict[int, Loan] = {}
    held: int = 0
    others: int = 0
    asked_at: float = 0.0

    @property
    def spent(self) -> int:
        return self.stored + self.pending

    @property
    def mine(self) -> int:
        """What this gateway has to hold: it is leased, or not in the store yet."""
        return self.reserved + self.pending

    @property
    def left(self) -> int:
        """What is neither spent, nor held or leased by any process."""
        return self.limit - self.stored - self.mine - self.others

    def lend(self, amount: int) -> None:
        """See LeasePool."""
        self.reserved += amount

    def give_back(self, amount: int) -> None:
        """See LeasePool."""
        self.reserved -= amount

    def book(self, expires: int, amount: int, at: int) -> None:
        """See LeasePool: what was spent counts by its record."""
        self.reserved -= amount

    def counts(self, one: Spend) -> int:
        """What of it counts in this account."""
        return _own(self, one.payer, one.amount) if self.period.has(one.slot) else 0


class BudgetAccounts:
    """All accounts of one gateway.

    Without a store, everything since the start is kept here, by time.

    version: of the sums in the store; -1 before the first reading.
    """

    def __init__(self, *, durable: bool) -> None:
        """durable: what is recorded reaches a store, and is known only when it was read there."""
        self.version = -1
        self._durable = durable
        self._budgets = RuleIndex[Budget](())
        self._accounts: dict[str, dict[str, BudgetAccount]] = {}
        self._sums: dict[Period, PeriodSums] = {}
        self._journal: dict[str, deque[Recorded]] = {}
        self._kept: dict[tuple[int, Payer], Amount] = {}

    def __iter__(self) -> Iterator[BudgetAccount]:
        for subjects in self._accounts.values():
            yield from subjects.values()

    def configure(self, budgets: tuple[Budget, ...], at: float) -> None:
        """Apply these budgets. What is leased under a name and unit stays. at: Unix seconds."""
        self._budgets = RuleIndex(budgets)
        before, self._accounts = self._accounts, {}
        for budget in budgets:
            self._accounts[budget.name] = {}
            for subject, old in before.get(budget.name, {}).items():
                if (old.budget.usd is None) == (budget.usd is None):
                    new = self._open(budget, subject, at)
                    new.loans, new.reserved = old.loans, old.reserved
                    new.held, new.others = old.held, old.others
            if not budget.each and (budget.who.key is None or len(budgets) <= MOST_OPENED):
                self.find(budget.name, "", at)

    def find(self, name: str, subject: str, at: float) -> BudgetAccount | None:
        """The account, in the period of this moment; `None` if its budget does not exist."""
        budget = self._budgets.named.get(name)
        if budget is None:
            return None
        account = self._accounts[name].get(subject) or self._open(budget, subject, at)
        if not account.period.has(int(at)):
            account.period = period_at(budget, at)
            self._sum(account)
        return account

    def turn(self, at: float) -> None:
        """Begin new periods that have come. at: Unix seconds."""
        for account in tuple(self):
            self.find(account.budget.name, account.subject, at)

    def record(self, writer: str, recorded: Iterable[Recorded]) -> None:
        """Count what the process with this writer has recorded."""
        for one in recorded:
            if self._durable:
                self._journal.setdefault(writer, deque()).append(one)
                self._count(one.spend, self._add_pending)
            else:
                for each in one.spend:
                    found = each.slot, each.payer
                    self._kept[found] = self._kept.get(found, Amount()) + each.amount
                self._store(one.spend)

    def forget_idle(self) -> None:
        """Forget end users of whom nothing is held; see IDLE_S."""
        before = time.monotonic() - IDLE_S
        for budget in self._budgets.all:
            if budget.each == "end_user":
                self._accounts[budget.name] = {
                    subject: one
                    for subject, one in self._accounts[budget.name].items()
                    if one.mine or one.held or one.others or one.asked_at > before
                }

    def windows(self) -> list[Period]:
        """The periods whose sums must be read."""
        return sorted({account.period for account in self if not account.known}, key=_order)

    def take(self, reading: SpendReading, windows: Iterable[Period]) -> bool:
        """Learn what is in the store; false if the windows must be read again, all of them."""
        if reading.changes is None and self.version >= 0:
            self.version = -1
            for account in self:
                account.known = False
            self._sums.clear()
            return False
        for writer, batch in reading.imported.items():
            self._forget(writer, batch)
        self._store(reading.changes or ())
        self.version = reading.version
        for period, sums in zip(windows, reading.whole, strict=True):
            self._sums[period] = PeriodSums(sums)
        for account in self:
            if not account.known:
                self._sum(account)
        used = {account.period for account in self}
        self._sums = {period: sums for period, sums in self._sums.items() if period in used}
        return True

    def drop(self, writer: str) -> int:
        """Forget what a dead process has recorded and lost; return how many 10⁻⁹ US dollars."""
        lost = 0
        for one in self._journal.pop(writer, ()):
            self._count(one.spend, self._take_pending)
            lost += sum(each.amount.nanos for each in one.spend)
        return lost

    def _forget(self, writer: str, batch: int) -> None:
        """Drop from the journal what has reached the store."""
        journal = self._journal.get(writer)
        while journal and journal[0].batch <= batch:
            self._count(journal.popleft().spend, self._take_pending)

    def _store(self, spend: Iterable[Spend]) -> None:
        for one in spend:
            for period, sums in self._sums.items():
                if period.has(one.slot):
                    sums.add(one.payer, one.amount)
        self._count(spend, self._add_stored)

    def _count(self, spend: Iterable[Spend], add: Callable[[BudgetAccount, int], None]) -> None:
        for one in spend:
            for budget in self._budgets.of_key(one.payer.key):
                subject = subject_for(budget, one.payer)
                if subject is None:
                    continue
                account = self._accounts[budget.name].get(subject)
                if account is not None and account.period.has(one.slot):
                    add(account, counted(budget, one.amount))

    @staticmethod
    def _add_stored(account: BudgetAccount, amount: int) -> None:
        if account.known:
            account.stored += amount

    @staticmethod
    def _add_pending(account: BudgetAccount, amount: int) -> None:
        account.pending += amount

    @staticmethod
    def _take_pending(account: BudgetAccount, amount: int) -> None:
        account.pending -= amount

    def _open(self, budget: Budget, subject: str, at: float) -> BudgetAccount:
        account = BudgetAccount(
            budget, subject, allowed(budget), period_at(budget, at), asked_at=time.monotonic()
        )
        self._accounts[budget.name][subject] = account
        self._sum(account)
        return account

    def _sum(self, account: BudgetAccount) -> None:
        """Add up the account's period again, as far as it is known."""
        sums = self._sums.get(account.period)
        if sums is None and not self._durable:
            sums = self._sums[account.period] = self._sum_kept(account.period)
        account.known = sums is not None
        account.stored = 0 if sums is None else _total(account, sums)
        account.pending = 0
        apart = account.budget.each == "end_user"
        own = end_user_of(account.subject) if apart else ""
        for journal in self._journal.values():
            for one in journal:
                for each in one.spend:
                    if apart and each.payer.end_user != own:
                        continue
                    if account.period.has(each.slot):
                        account.pending += _own(account, each.payer, each.amount)

    def _sum_kept(self, period: Period) -> "PeriodSums":
        """Add up a period without a store."""
        sums = PeriodSums({})
        for (slot, payer), amount in self._kept.items():
            if period.has(slot):
                sums.add(payer, amount)
        return sums


class PeriodSums:
    """What was spent in one period, by payer; those of one key or end user are found at once."""

    def __init__(self, sums: Mapping[Payer, Amount]) -> None:
        self._by_key: dict[str, dict[Payer, Amount]] = {}
        self._by_end_user: dict[str, dict[Payer, Amount]] = {}
        for payer, amount in sums.items():
            self._by_key.setdefault(payer.key, {})[payer] = amount
            if payer.end_user:
                self._by_end_user.setdefault(payer.end_user, {})[payer] = amount

    def add(self, payer: Payer, amount: Amount) -> None:
        known = self._by_key.setdefault(payer.key, {})
        total = known[payer] = known.get(payer, Amount()) + amount
        if payer.end_user:
            self._by_end_user.setdefault(payer.end_user, {})[payer] = total

    def of(self, budget: Budget, subject: str | None) -> Iterator[tuple[Payer, Amount]]:
        """Yield whatever may count, and more. subject: only of this one, unless it is `None`."""
        if budget.each == "end_user" and subject is not None:
            yield from self._by_end_user.get(end_user_of(subject), {}).items()
            return
        key = subject if budget.each == "key" else budget.who.key
        parts = self._by_key.values() if key is None else (self._by_key.get(key, {}),)
        for part in parts:
            yield from part.items()


def _total(account: BudgetAccount, sums: PeriodSums) -> int:
    found = sums.of(account.budget, account.subject)
    return sum(_own(account, payer, amount) for payer, amount in found)


def _own(account: BudgetAccount, payer: Payer, amount: Amount) -> int:
    own = subject_for(account.budget, payer) == account.subject
    return counted(account.budget, amount) if own else 0


def _order(period: Period) -> tuple[int, int]:
    return period.begin, period.end
