"""The leader's side of limits over several processes: what counts, and what becomes of loans."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic_ns

from strowger_gateway.gateway.config.schema.limits import Limit
from strowger_gateway.gateway.governance.leases.leader import LeaseLeader, Waiting
from strowger_gateway.gateway.governance.leases.messages import (
    LeaseGrant,
    LeaseNeed,
    LeaseUse,
    Place,
    ToLeader,
)
from strowger_gateway.gateway.governance.leases.pool import Loan
from strowger_gateway.gateway.governance.limits.ledger import Account, LimitRefusal
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.limits.standing import (
    QUANTITIES,
    LimitPlace,
    LimitStanding,
    standings,
)
from strowger_gateway.gateway.governance.limits.window import ConcurrencySlots, Window

Part = Window | ConcurrencySlots


class LimitLeaseLeader(LeaseLeader[Part, LimitRefusal]):
    """The accounts of all workers, in the leader."""

    def __init__(
        self,
        limits: Callable[[], tuple[Limit, ...]],
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        """limits: the current configuration's, never older than a worker's. clock: nanoseconds."""
        super().__init__(clock)
        self._current = limits
        self._configured: tuple[Limit, ...] = ()
        self._accounts = RequestLimits(self._configured, clock)

    def on_message(self, worker: int, message: ToLeader) -> None:
        if self.is_new(worker, message):
            self.receive(worker, message)

    def refresh(self) -> None:
        """Apply the current limits. A window of another period begins again: nothing is lent."""
        limits = self._current()
        if limits is not self._configured:
            self._configured = limits
            self._accounts.configure(limits)

    def pool(self, place: Place) -> Part | None:
        account = self._accounts.account(place[0], place[1])
        parts = () if account is None else _parts(account)
        return next((part for at, part in parts if at == place), None)

    def free(self, pool: Part) -> int:
        return pool.room

    def judge(self, waiting: Waiting[LimitRefusal]) -> None:
        """Lend what is lacking at all places, or nothing at all."""
        at = self._clock()
        wanted: list[tuple[Part, LeaseNeed]] = []
        lacking: dict[tuple[str, str], dict[str, int]] = {}
        for need in waiting.ask.needs:
            limit, subject, quantity = need.place
            part = self.pool(need.place)
            if part is not None:
                wanted.append((part, need))
                lacking.setdefault((limit, subject), {})[quantity] = need.amount
                self._note_running(waiting.worker, part, need.running)
        refusals: list[LimitRefusal] = []
        for place, amounts in lacking.items():
            account = self._accounts.account(*place)
            if account is not None:
                requests, tokens, slots = [amounts.get(one, 0) for one in QUANTITIES]
                refusals += account.refusals(requests, tokens, slots, at)
        if not refusals:
            self.grant(waiting, wanted)
            return
        refusal = max(refusals, key=LimitRefusal.lasting)
        # One that holds nothing may have room, too: requests that ended after its last report.
        holders = {worker for part, _ in wanted for worker in part.loans}
        self.refuse(waiting, refusal, () if refusal.wait is None else holders)

    def forget(self, worker: int) -> None:
        """The slots of a worker that exited are free. The rest may have been used, and counts."""
        at = self._clock()
        for _, part in self._pools():
            loan = part.loans.pop(worker, None)
            if loan is None:
                continue
            if isinstance(part, Window):
                part.book(at + part.period, loan.amount, at)
                _sum_running(part)
            else:
                part.give_back(loan.amount)

    def settle(self, worker: int, pool: Part, use: LeaseUse, at: int) -> None:
        super().settle(worker, pool, use, at)
        self._note_running(worker, pool, use.running)

    def lent_elsewhere(self, worker: int, grant: LeaseGrant) -> None:
        """Count what another process has granted to a worker."""
        self.refresh()
        for share in grant.shares:
            part = self.pool(share.place)
            if part is not None:
                self.lend(worker, part, share.amount)

    def loans(self, worker: int) -> Mapping[Place, Loan]:
        """What a worker holds or runs, without places of which it is nothing."""
        found = [(place, part.loans.get(worker)) for place, part in self._pools()]
        return {place: loan for place, loan in found if loan and (loan.amount or loan.running)}

    def accounts(self) -> list[Account]:
        """All accounts that were ever needed, by the current configuration."""
        self.refresh()
        return self._accounts.accounts()

    def account(self, limit: str, subject: str) -> Account | None:
        """The account of a limit's subject; `None` if the limit does not exist."""
        self.refresh()
        return self._accounts.account(limit, subject)

    async def standings(self, places: Sequence[LimitPlace]) -> tuple[LimitStanding, ...]:
        """What is used of the limits in force at these places, by all workers."""
        self.refresh()
        return standings(self._accounts, places, self._clock())

    def _pools(self) -> Iterator[tuple[Place, Part]]:
        for account in self._accounts.accounts():
            yield from _parts(account)

    def _note_running(self, worker: int, part: Part, running: int) -> None:
        """Note what a worker's running requests have reserved."""
        if isinstance(part, Window) and (running or worker in part.loans):
            part.loans.setdefault(worker, Loan()).running = running
            _sum_running(part)


def _parts(account: Account) -> Iterator[tuple[Place, Part]]:
    """What the account limits, by place."""
    parts = (account.requests, account.tokens, account.slots)
    for quantity, part in zip(QUANTITIES, parts, strict=True):
        if part is not None:
            yield (account.limit, account.subject, quantity), part


def _sum_running(window: Window) -> None:
    window.running = sum([loan.running for loan in window.loans.values()])
