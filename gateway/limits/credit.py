"""What a worker uses beyond its leases of limits that need not be exact."""

from collections import deque
from typing import Final

from gateway.limits.ledger import Accounts, Hold
from gateway.limits.messages import PART, LimitAsk, LimitGrant
from gateway.limits.window import Window

Place = tuple[str, str]

_MANY: Final = 10_000
"""From this number on, windows that owe nothing are forgotten before one is added."""


class _Debt:
    """What one window was overdrawn by and its leader has not granted since."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: deque[tuple[int, int, int]] = deque()

    def total(self, at: int) -> int:
        """Return what still counts: an overdraft lasts as long as the use that it was for."""
        parts = self._parts
        while parts and parts[0][0] <= at:
            parts.popleft()
        return sum(amount for _, amount, _ in parts)

    def add(self, until: int, amount: int, ask: int) -> None:
        """until: nanoseconds. ask: the number of the message that asked the leader for it."""
        self._parts.append((until, amount, ask))

    def repay(self, ask: int) -> None:
        """The leader has granted what this message asked for."""
        parts = self._parts
        while parts and parts[0][2] <= ask:
            parts.popleft()


class LimitCredit:
    """Admits requests beyond the leases, up to one lease per window and period.

    A worker that overdraws asks its leader at the same time. If that grants more, the limit had
    room all along, and the credit is whole again.
    """

    def __init__(self) -> None:
        self._debts: dict[tuple[Place, str], _Debt] = {}

    def reserve(self, accounts: Accounts, tokens: int, ask: LimitAsk, at: int) -> Hold | None:
        """Reserve a request that lacks what `ask` has; `None` if the credit does not cover it.

        Send the leader what was used, and then `ask`. at: the clock, nanoseconds.
        """
        lent: list[tuple[Window, int, tuple[Place, str]]] = []
        named = {(one.limit, one.subject): one for one in ask.lacking}
        for account in accounts.all:
            need = named.get((account.limit, account.subject))
            if need is None:
                continue
            if account.exact or need.seats:
                return None
            for window, quantity, amount in (
                (account.requests, "requests", need.requests),
                (account.tokens, "tokens", need.tokens),
            ):
                if window is None or not amount:
                    continue
                place = ((account.limit, account.subject), quantity)
                debt = self._debts.get(place)
                if amount + (0 if debt is None else debt.total(at)) > window.limit // PART:
                    return None
                lent.append((window, amount, place))
        for window, amount, _ in lent:
            window.change(amount)
        hold = accounts.reserve(tokens, at)
        for window, amount, place in lent:
            window.change(-amount)
            if hold is not None:
                self._owe(place, at).add(at + window.period, amount, ask.id)
        return hold

    def repaid(self, grant: LimitGrant) -> None:
        """The leader had room for more, so what was overdrawn before this is within the limit."""
        for one in grant.granted:
            for quantity, amount in (("requests", one.requests), ("tokens", one.tokens)):
                debt = self._debts.get(((one.limit, one.subject), quantity))
                if debt is not None and amount:
                    debt.repay(grant.id)

    def _owe(self, place: tuple[Place, str], at: int) -> _Debt:
        if place not in self._debts and len(self._debts) >= _MANY:
            self._debts = {place: one for place, one in self._debts.items() if one.total(at)}
        return self._debts.setdefault(place, _Debt())
