"""What a worker uses beyond its leases of limits that need not be exact."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from strowger_gateway.gateway.governance.leases.messages import LeaseGrant, LeaseNeed, Place
from strowger_gateway.gateway.governance.leases.pool import PART
from strowger_gateway.gateway.governance.limits.leased import LeasedWindow, leased_parts
from strowger_gateway.gateway.governance.limits.ledger import Accounts, Hold

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


class LimitOverdraft:
    """Admits requests beyond the leases, up to one lease per window and period.

    A worker that overdraws asks its leader at the same time. If that grants more, the limit had
    room all along, and the whole overdraft is free again.
    """

    def __init__(self) -> None:
        self._debts: dict[Place, _Debt] = {}

    def reserve(
        self, accounts: Accounts, tokens: int, needs: Sequence[LeaseNeed], number: int, at: int
    ) -> Hold | None:
        """Reserve a request that lacks these amounts; `None` if the overdraft does not cover them.

        Send the leader what was used, and then ask for `needs` with this number. at: the clock,
        nanoseconds.
        """
        lacking = {need.place: need.amount for need in needs if need.amount}
        lent: list[tuple[LeasedWindow, int]] = []
        for account in accounts.all:
            for part in leased_parts(account):
                amount = lacking.get(part.place)
                if amount is None:
                    continue
                if account.exact or not isinstance(part, LeasedWindow):
                    return None
                debt = self._debts.get(part.place)
                if amount + (0 if debt is None else debt.total(at)) > part.limit // PART:
                    return None
                lent.append((part, amount))
        for window, amount in lent:
            window.change(amount)
        hold = accounts.reserve(tokens, at)
        for window, amount in lent:
            window.change(-amount)
            if hold is not None:
                self._owe(window.place, at).add(at + window.period, amount, number)
        return hold

    def repaid(self, grant: LeaseGrant) -> None:
        """The leader had room for more, so what was overdrawn before this is within the limit."""
        for share in grant.shares:
            debt = self._debts.get(share.place)
            if debt is not None and share.amount:
                debt.repay(grant.id)

    def _owe(self, place: Place, at: int) -> _Debt:
        if place not in self._debts and len(self._debts) >= _MANY:
            self._debts = {place: one for place, one in self._debts.items() if one.total(at)}
        return self._debts.setdefault(place, _Debt())
