"""What one process may spend: reserve a request under all budgets that apply, or under none."""

from collections.abc import Sequence

from msgspec import Struct

from gateway.store.spend_rows import Amount


class Purse(Struct, eq=False, gc=False):
    """What is leased to this process of one account, in tokens or 10⁻⁹ US dollars.

    budget, subject: its account. usd: it counts money. limit: of the budget, for a whole period.
    unpriced: what an attempt of unknown cost counts; `None` refuses requests that may have one.
    room:  of the lease; negative if requests used more than they had reserved.
    spent: since the last report. idle: reports since then without a use.
    """

    budget: str
    subject: str
    usd: bool
    limit: int
    unpriced: int | None
    room: int = 0
    spent: int = 0
    idle: int = 0

    def need(self, cost: "Cost") -> int:
        """How much of this account a request reserves."""
        needed = cost.tokens
        if self.usd:
            needed = cost.nanos
            if cost.unpriced:
                needed = max(needed, self.unpriced or 0)
        return min(needed, self.limit) if cost.guessed else needed


class Cost(Struct, frozen=True, gc=False):
    """The most that a request is expected to use.

    guessed:  it sets no `max_tokens`, so it never reserves more than a whole budget.
    unpriced: the name of a backend that may answer and has no price, or "".
    """

    nanos: int
    tokens: int
    guessed: bool = False
    unpriced: str = ""


class Purses:
    """All accounts that apply to a request. soft: those that never refuse it.

    usd: whether one of them counts money. strict: the first budget that wants every price known.
    """

    __slots__ = ("all", "hard", "soft", "strict", "usd")

    def __init__(self, purses: Sequence[Purse], soft: Sequence[Purse] = ()) -> None:
        self.hard, self.soft = tuple(purses), tuple(soft)
        self.all = (*purses, *soft)
        self.usd = any(one.usd for one in self.all)
        self.strict = next(
            (one.budget for one in self.hard if one.usd and one.unpriced is None), ""
        )

    def reserve(self, cost: Cost) -> "Reservation | None":
        """Reserve a request; `None` if a lease lacks room."""
        nanos, tokens, unpriced = cost.nanos, cost.tokens, cost.unpriced
        needs: list[int] = []
        for purse in self.hard:
            if unpriced:
                need = purse.need(cost)
            else:  # `Purse.need` written out for most requests
                need = nanos if purse.usd else tokens
                if need > purse.limit and cost.guessed:
                    need = purse.limit
            if purse.room < need:
                return None
            needs.append(need)
        needs += [purse.need(cost) for purse in self.soft] if self.soft else ()
        for purse, need in zip(self.all, needs, strict=True):
            purse.room -= need
        return Reservation(self, needs)


class Reservation(Struct, eq=False):
    """What one request has reserved, by account. A Struct created by position (ADR 16)."""

    purses: Purses
    needs: list[int]

    def settle(self, used: Amount | None) -> None:
        """The request has ended, and this is what its records say; `None`: it has none."""
        settled = zip(self.purses.all, self.needs, strict=True)
        if used is None:
            for purse, need in settled:
                purse.room += need
            return
        nanos, tokens, unpriced = used.nanos, used.tokens, used.unpriced
        for purse, need in settled:
            amount = tokens
            if purse.usd:
                amount = nanos
                if unpriced:
                    amount += unpriced * (purse.unpriced or 0)
            purse.room += need - amount
            purse.spent += amount


class Short(Struct, frozen=True, kw_only=True):
    """A budget that has no room for a request.

    limit, left: of a period, in the budget's unit. need: of the request.
    resets: when the period ends, Unix seconds; `None` if it never does.
    """

    budget: str
    limit: int
    left: int
    need: int
    resets: float | None
