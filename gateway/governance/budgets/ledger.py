"""What one process may spend: reserve a request under all budgets that apply, or under none."""

from collections.abc import Sequence

from msgspec import Struct

from strowger_gateway.gateway.governance.leases.messages import LeaseShare, LeaseUse, Place
from strowger_gateway.gateway.governance.leases.worker import IDLE_REPORTS
from strowger_gateway.gateway.storage.sql.spend_rows import Amount, Payer


class BudgetLease:
    """What is leased to this process of one account, in tokens or 10⁻⁹ US dollars.

    budget, subject: its account. usd: it counts money. limit: of the budget, for a whole period.
    unpriced: what an attempt of unknown cost counts; `None` refuses requests that may have one.
    room:  of the lease; negative if requests used more than they had reserved.
    spent: since the last report. idle: reports since then without a use.
    """

    __slots__ = ("budget", "idle", "limit", "room", "spent", "subject", "unpriced", "usd")

    def __init__(
        self, budget: str, subject: str, limit: int, unpriced: int | None, *, usd: bool
    ) -> None:
        self.budget = budget
        self.subject = subject
        self.usd = usd
        self.limit = limit
        self.unpriced = unpriced
        self.room = self.spent = self.idle = 0

    @property
    def place(self) -> Place:
        return lease_place(self.budget, self.subject, usd=self.usd)

    def add(self, share: LeaseShare) -> None:
        """Add to the lease."""
        self.room += share.amount
        self.idle = 0

    def report(self, *, recalled: bool, age: int) -> LeaseUse | None:
        """What happened since the last report, with what is given back: see LeasedQuantity."""
        spent, returned, overdrawn = self.spent, 0, 0
        self.spent = 0
        self.idle = 0 if spent else self.idle + age
        if self.room < 0:
            overdrawn, self.room = -self.room, 0
        elif self.room and (recalled or self.idle >= IDLE_REPORTS):
            returned, self.room = self.room, 0
        if not (spent or returned or overdrawn):
            return None
        return LeaseUse(self.place, ((0, spent),) if spent else (), returned, overdrawn)

    def is_idle(self, at: int) -> bool:
        """Return whether it has had no lease and nothing to report for a while."""
        return not (self.room or self.spent) and self.idle >= IDLE_REPORTS

    def need(self, cost: "Cost") -> int:
        """How much of this account a request reserves."""
        needed = cost.tokens
        if self.usd:
            needed = cost.nanos
            if cost.unpriced:
                needed = max(needed, self.unpriced or 0)
        return min(needed, self.limit) if cost.guessed else needed


def lease_place(budget: str, subject: str, *, usd: bool) -> Place:
    """Where a budget of this unit is leased."""
    return budget, subject, "usd" if usd else "tokens"


class Cost(Struct, frozen=True, gc=False):
    """The most that a request is expected to use.

    guessed:  it sets no `max_tokens`, so it never reserves more than a whole budget.
    unpriced: the name of a backend that may answer and has no price, or "".
    """

    nanos: int
    tokens: int
    guessed: bool = False
    unpriced: str = ""


class BudgetLeases:
    """The leases of all budgets that apply to a request. soft: those that never refuse it.

    payer: whose requests they are. strict: the first budget that wants every price known.
    busy: leases to report, which gets those that are reserved of while they are empty.
    money, tokens: the only leases that count money and tokens, if `simple`; one that nothing
    counts in is bottomless.
    """

    __slots__ = (
        "_money",
        "_tokens",
        "all",
        "busy",
        "hard",
        "money",
        "payer",
        "simple",
        "soft",
        "strict",
        "tokens",
    )

    def __init__(
        self,
        payer: Payer,
        leases: Sequence[BudgetLease],
        soft: Sequence[BudgetLease] = (),
        busy: set[BudgetLease] | None = None,
    ) -> None:
        self.payer = payer
        self.busy = set[BudgetLease]() if busy is None else busy
        self.hard, self.soft = tuple(leases), tuple(soft)
        self.all = (*leases, *soft)
        self._money = tuple([one for one in self.hard if one.usd])
        self._tokens = tuple([one for one in self.hard if not one.usd])
        self.simple = not self.soft and len(self._money) <= 1 and len(self._tokens) <= 1
        self.money, self.tokens = (
            (*self._money, _bottomless())[0],
            (*self._tokens, _bottomless())[0],
        )
        self.strict = next((one.budget for one in self._money if one.unpriced is None), "")

    def reserve(self, cost: Cost) -> "Reservation | None":
        """Reserve a request; `None` if a lease lacks room."""
        nanos, tokens = cost.nanos, cost.tokens
        for lease in self._money:
            if lease.room < nanos:
                return self._reserve_needs(cost)
        for lease in self._tokens:
            if lease.room < tokens:
                return self._reserve_needs(cost)
        if cost.unpriced or self.soft:
            return self._reserve_needs(cost)
        for lease in self._money:
            lease.room -= nanos
        for lease in self._tokens:
            lease.room -= tokens
        return Reservation(self, nanos, tokens)

    def _reserve_needs(self, cost: Cost) -> "Reservation | None":
        """Reserve what the request needs of each account, which may be less or more."""
        needs = tuple([lease.need(cost) for lease in self.all])
        for lease, need in zip(self.hard, needs, strict=False):
            if lease.room < need:
                return None
        for lease, need in zip(self.all, needs, strict=True):
            lease.room -= need
        self.busy.update(self.soft)
        return Reservation(self, cost.nanos, cost.tokens, needs)

    def settle(self, reserved: Amount, used: Amount) -> None:
        """Replace what requests have reserved in each account by what their records say."""
        for lease in self.all:
            if lease.usd:
                amount = used.nanos + used.unpriced * (lease.unpriced or 0)
                lease.room += reserved.nanos - amount
            else:
                amount = used.tokens
                lease.room += reserved.tokens - amount
            lease.spent += amount


def _bottomless() -> BudgetLease:
    """A lease that never lacks room."""
    lease = BudgetLease("", "", 0, None, usd=False)
    lease.room = 1 << 62
    return lease


class Reservation(Struct, eq=False, gc=False):
    """What one request has reserved. A Struct created by position (ADR 16).

    nanos, tokens: in each account, by its unit. needs: by account, if they are others.
    """

    leases: BudgetLeases
    nanos: int
    tokens: int
    needs: tuple[int, ...] | None = None

    def settle(self, used: Amount | None) -> None:
        """The request has ended, and this is what its records say; `None`: it has none."""
        leases, needs = self.leases, self.needs
        if needs is None:
            leases.settle(Amount(self.nanos, self.tokens), used or Amount())
            return
        for lease, need in zip(leases.all, needs, strict=True):
            lease.room += need
        leases.settle(Amount(), used or Amount())


class Shortfall(Struct, frozen=True, kw_only=True):
    """A budget that has no room for a request.

    limit, left: of a period, in the budget's unit. need: of the request.
    spent:  what records add up to. The rest of what is not left is reserved by running requests.
    resets: when the period ends, Unix seconds; `None` if it never does.
    """

    budget: str
    limit: int
    left: int
    need: int
    spent: int
    resets: float | None

    @property
    def only_reserved(self) -> bool:
        """Whether running requests have reserved what is missing, and may use less of it."""
        return self.spent + self.need <= self.limit
