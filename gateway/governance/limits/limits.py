"""The limits in force in one process: which of them apply to a request, and what was used.

The whole flow, from windows to leases and Redis, is in the docstring of this folder's package.
"""

from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Final, Protocol

from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.schema.limits import Limit
from strowger_gateway.gateway.governance.leases.messages import Place as LeasePlace
from strowger_gateway.gateway.governance.limits.leased import (
    LeasedPart,
    LeasedSlots,
    LeasedWindow,
    leased_parts,
)
from strowger_gateway.gateway.governance.limits.ledger import (
    Account,
    Accounts,
    Hold,
    LimitRefusal,
    Quantity,
)
from strowger_gateway.gateway.governance.limits.queue import LimitQueue
from strowger_gateway.gateway.governance.limits.scope import Place, RuleIndex, subject_of
from strowger_gateway.gateway.governance.limits.window import ConcurrencySlots, Window

SECOND: Final = 1_000_000_000
PERIODS: Final = {"minute": 60 * SECOND, "hour": 3600 * SECOND, "day": 86_400 * SECOND}

_MOST_KEPT: Final = 4096
"""Combinations of key and model whose accounts are remembered; clients choose model names."""

_MANY_ACCOUNTS: Final = 10_000
"""From this number on, accounts that nothing counts in are dropped before one is added."""


class LimitAsker(Protocol):
    """Another process that may have room."""

    async def ask(self, accounts: Accounts, tokens: int) -> Hold | LimitRefusal:
        """Reserve a request that lacks room here. Raises Unavailable without an answer."""
        ...


class RequestLimits:
    """The limits of one process, over all generations of its configuration.

    configured: all of them. any: whether there are some.
    refused: requests refused so far, by limit and quantity.
    on_change: called when what `of` has returned must not be used any more.
    asker: where a request that lacks room asks for more; `None` if this process has all accounts.
    busy: with an asker, what has a lease or something to report.
    queue: the requests that wait for room.
    """

    def __init__(self, limits: tuple[Limit, ...], clock: Callable[[], int] = monotonic_ns) -> None:
        """clock: nanoseconds."""
        self.on_change: Callable[[], object] = tuple
        self._accounts: dict[tuple[str, str], tuple[Limit, Account]] = {}
        self._found: dict[Place, Accounts | None] = {}
        self.refused: dict[tuple[str, str], int] = {}
        self.asker: LimitAsker | None = None
        self.busy = set[LeasedPart]()
        self._clock = clock
        self._most = _MANY_ACCOUNTS
        self.queue = LimitQueue(self._attempt, clock)
        self._leased = False
        self.configure(limits)

    def configure(self, limits: tuple[Limit, ...]) -> None:
        """Apply these limits from now on; what was used under the same name still counts.

        A lease that this replaces stays in `busy` until it has reported everything.
        """
        self.configured = limits
        self._limits = RuleIndex(limits)
        self.any = bool(limits)
        self._forget()
        before, self._accounts = self._accounts, {}
        for place, (old, account) in before.items():
            limit = self._limits.named.get(place[0])
            if limit is not None:
                self._accounts[place] = limit, self._adapted(old, account, limit)

    def of(self, place: Place) -> Accounts | None:
        """The accounts of a request; `None` if no limit applies to it."""
        try:
            return self._found[place]
        except KeyError:
            pass
        key, route, model, team, user, end_user, plan = place
        if len(self._found) >= _MOST_KEPT:
            self._found.clear()
        found = [
            self._find(limit, subject)
            for limit in self._limits.of_key(key)
            if (subject := subject_of(limit, key, team, user, end_user)) is not None
            and covers(limit.models, route, model)
            and (not limit.plan or limit.plan == plan)
        ]
        accounts = self._found[place] = Accounts(found) if found else None
        return accounts

    def lease(self, asker: "LimitAsker") -> None:
        """Limit with what another process leases to this one. Call it before the first request."""
        self.asker = asker
        self._leased = True
        self._forget()
        self._accounts.clear()

    def account(self, name: str, subject: str) -> Account | None:
        """The account of a limit's subject; `None` if the limit does not exist."""
        known = self._accounts.get((name, subject))
        if known is not None:
            return known[1]
        limit = self._limits.named.get(name)
        return None if limit is None else self._find(limit, subject)

    def leased(self, place: LeasePlace) -> LeasedPart | None:
        """What is leased of a place; `None` if nothing limits it."""
        account = self.account(place[0], place[1])
        parts = () if account is None else leased_parts(account)
        return next((one for one in parts if one.place == place), None)

    def rules_of(self, key: str) -> Sequence[Limit]:
        """The limits that may be about a key, in their order."""
        return self._limits.of_key(key)

    def known(self, name: str, subject: str) -> Account | None:
        """The account of a limit's subject, if it was needed already."""
        found = self._accounts.get((name, subject))
        return None if found is None else found[1]

    def accounts(self) -> list[Account]:
        """All accounts that were ever needed."""
        return [account for _, account in self._accounts.values()]

    async def find_room(
        self, accounts: Accounts, tokens: int, key: str, *, contended: bool
    ) -> Hold | LimitRefusal:
        """Reserve a request that lacks room here: ask, and wait if its limits allow that.

        key: the name of its key. contended: other requests wait that came earlier.
        """
        wait_s = max(self._wait_s(one.limit) for one in accounts.all) if contended else 0.0
        if not wait_s:
            found = await self._attempt(accounts, tokens)
            if isinstance(found, Hold) or found.wait is None:
                return found
            wait_s = self._wait_s(found.limit)
            certain = found.quantity == "requests" and found.wait > wait_s * SECOND
            if not wait_s or certain:
                return found
        return await self.queue.wait(accounts, tokens, key, wait_s)

    def count_refused(self, limit: str, quantity: str) -> None:
        place = limit, quantity
        self.refused[place] = self.refused.get(place, 0) + 1

    def _wait_s(self, name: str) -> float:
        limit = self._limits.named.get(name)
        return 0.0 if limit is None else limit.wait_s

    async def _attempt(self, accounts: Accounts, tokens: int) -> Hold | LimitRefusal:
        at = self._clock()
        hold = accounts.reserve(tokens, at)
        if hold is not None:
            return hold
        if self.asker is None:
            return accounts.refusal(tokens, at)
        return await self.asker.ask(accounts, tokens)

    def _forget(self) -> None:
        """Look accounts up again."""
        self._found.clear()
        self.on_change()

    def _find(self, limit: Limit, subject: str) -> Account:
        place = limit.name, subject
        known = self._accounts.get(place)
        if known is not None:
            return known[1]
        if len(self._accounts) >= self._most:
            self._drop_unused()
        account = self._new(limit, subject)
        self._accounts[place] = limit, account
        return account

    def _drop_unused(self) -> None:
        """Drop accounts in which nothing counts, unless requests wait for them.

        The next time is when there are twice as many, so that looking at all of them costs an
        account that is added little.
        """
        self._forget()
        at, waiting = self._clock(), self.queue.accounts()
        for place, (_, one) in tuple(self._accounts.items()):
            one.expire(at)
            if one.unused and one not in waiting:
                del self._accounts[place]
        self._most = max(_MANY_ACCOUNTS, 2 * len(self._accounts))

    def _new(self, limit: Limit, subject: str) -> Account:
        slots = None
        if limit.concurrent is not None:
            slots = ConcurrencySlots(limit.concurrent)
            if self._leased:
                slots = LeasedSlots(limit.concurrent, (limit.name, subject, "concurrent"))
        return Account(
            limit.name,
            limit.per,
            subject,
            self._window(limit, subject, "requests", limit.requests),
            self._window(limit, subject, "tokens", limit.tokens),
            slots,
            limit.exact,
            limit.each == "end_user",
        )

    def _window(
        self, limit: Limit, subject: str, quantity: Quantity, amount: int | None
    ) -> Window | None:
        if amount is None:
            return None
        period = PERIODS[limit.per]
        if self._leased:
            return LeasedWindow(amount, period, (limit.name, subject, quantity), self.busy)
        return Window(amount, period)

    def _adapted(self, old: Limit, account: Account, limit: Limit) -> Account:
        """The account with the new limit's numbers; a window of another period begins empty."""
        adapted = self._new(limit, account.subject)
        if old.per == limit.per:
            for name in ("requests", "tokens"):
                before: Window | None = getattr(account, name)
                after: Window | None = getattr(adapted, name)
                if before is not None and after is not None:
                    before.resize(after.limit)
                    setattr(adapted, name, before)
        if account.slots is not None and adapted.slots is not None:
            account.slots.resize(adapted.slots.limit)
            adapted.slots = account.slots
        return adapted
