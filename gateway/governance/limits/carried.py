"""What counts towards limits, passed from one gateway to the next on the same machine."""

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from strowger_gateway.gateway.governance.limits.ledger import Account
from strowger_gateway.gateway.governance.limits.window import Window

_Quantity = Literal["requests", "tokens"]


class CarriedUse(Struct, frozen=True, array_like=True, gc=False):
    """A use of one account, by its limit and its subject.

    expires: when it stops to count, in nanoseconds of the machine's monotonic clock.
    """

    limit: str
    subject: str
    quantity: _Quantity
    expires: int
    amount: int


def carried(accounts: Iterable[Account], at: int) -> tuple[CarriedUse, ...]:
    """Return all that counts now, with what running requests have reserved.

    What workers hold unused counts until a period from now: they may use it until then.
    """
    found: list[CarriedUse] = []
    for account in accounts:
        account.expire(at)
        windows: tuple[tuple[_Quantity, Window | None], ...] = (
            ("requests", account.requests),
            ("tokens", account.tokens),
        )
        for quantity, window in windows:
            if window is None:
                continue
            uses = [(expires, amount) for expires, amount in window.entries]
            held = window.limit - window.room - sum(amount for _, amount in uses)
            for expires, amount in (*uses, (at + window.period, held)):
                if amount > 0:
                    found.append(
                        CarriedUse(account.limit, account.subject, quantity, expires, amount)
                    )
    return tuple(found)


def carry(
    account_of: Callable[[str, str], Account | None], uses: Iterable[CarriedUse], at: int
) -> None:
    """Let uses of an earlier gateway count. account_of: `None` for a limit that does not exist."""
    for use in uses:
        account = account_of(use.limit, use.subject)
        window = None if account is None else _window(account, use.quantity)
        if window is not None and use.expires > at:
            window.lend(use.amount)
            # The period may be shorter now; a window's newest entry ends later than all others.
            window.book(min(use.expires, window.end(at)), use.amount, at)


def _window(account: Account, quantity: str) -> Window | None:
    return account.requests if quantity == "requests" else account.tokens
