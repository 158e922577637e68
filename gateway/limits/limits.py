"""The limits in force in one process: which of them apply to a request, and what was used."""

from collections.abc import Iterable
from typing import Final

from gateway.config.schema_limits import Limit
from gateway.limits.ledger import Account, Accounts
from gateway.limits.window import Seats, Window

SECOND: Final = 1_000_000_000
PERIODS: Final = {"minute": 60 * SECOND, "hour": 3600 * SECOND, "day": 86_400 * SECOND}

_MOST_KEPT: Final = 4096
"""Combinations of key and model whose accounts are remembered; clients choose model names."""

_MANY_ACCOUNTS: Final = 10_000
"""From this number on, accounts that nothing counts in are dropped before one is added."""


class RequestLimits:
    """The limits of one process, over all generations of its configuration.

    any: whether there are limits. refused: requests refused so far, by limit and quantity.
    """

    def __init__(self, limits: tuple[Limit, ...]) -> None:
        self._accounts: dict[tuple[str, str], tuple[Limit, Account]] = {}
        self._found: dict[tuple[str, str, str], Accounts | None] = {}
        self.refused: dict[tuple[str, str], int] = {}
        self.configure(limits)

    def configure(self, limits: tuple[Limit, ...]) -> None:
        """Apply these limits from now on; what was used under the same name still counts."""
        self._limits = limits
        self.any = bool(limits)
        self._found.clear()
        named = {limit.name: limit for limit in limits}
        before, self._accounts = self._accounts, {}
        for place, (old, account) in before.items():
            limit = named.get(place[0])
            if limit is not None:
                self._accounts[place] = limit, _adapted(old, account, limit)

    def of(self, key: str, route: str, model: str) -> Accounts | None:
        """The accounts of a request; `None` if no limit applies to it.

        key: the name of the key. route, model: the model's own name, and the requested one.
        """
        place = (key, route, model)
        try:
            return self._found[place]
        except KeyError:
            pass
        if len(self._found) >= _MOST_KEPT:
            self._found.clear()
        found = [
            self._account(limit, key if limit.each == "key" else "")
            for limit in self._limits
            if (limit.who.any or limit.who.key == key) and _covers(limit.models, route, model)
        ]
        accounts = self._found[place] = Accounts(found) if found else None
        return accounts

    def count_refused(self, limit: str, quantity: str) -> None:
        place = limit, quantity
        self.refused[place] = self.refused.get(place, 0) + 1

    def _account(self, limit: Limit, subject: str) -> Account:
        place = limit.name, subject
        known = self._accounts.get(place)
        if known is not None:
            return known[1]
        if len(self._accounts) >= _MANY_ACCOUNTS:
            self._drop_unused()
        account = _new(limit, subject)
        self._accounts[place] = limit, account
        return account

    def _drop_unused(self) -> None:
        self._found.clear()
        unused = [place for place, (_, one) in self._accounts.items() if _is_unused(one)]
        for place in unused:
            del self._accounts[place]


def _covers(patterns: Iterable[str], *names: str) -> bool:
    return any(
        pattern in names
        or (pattern.endswith("*") and any(name.startswith(pattern[:-1]) for name in names))
        for pattern in patterns
    )


def _new(limit: Limit, subject: str) -> Account:
    period = PERIODS[limit.per]
    return Account(
        limit.name,
        limit.per,
        subject,
        None if limit.requests is None else Window(limit.requests, period),
        None if limit.tokens is None else Window(limit.tokens, period),
        None if limit.concurrent is None else Seats(limit.concurrent),
    )


def _adapted(old: Limit, account: Account, limit: Limit) -> Account:
    """The account with the new limit's numbers; a window of another period begins empty."""
    adapted = _new(limit, account.subject)
    for name in ("requests", "tokens", "seats"):
        before, after = getattr(account, name), getattr(adapted, name)
        if before is None or after is None or (name != "seats" and old.per != limit.per):
            continue
        before.resize(after.limit)
        setattr(adapted, name, before)
    return adapted


def _is_unused(account: Account) -> bool:
    parts = (account.requests, account.tokens, account.seats)
    return all(part is None or part.room == part.limit for part in parts)
