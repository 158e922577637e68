"""The leader's side of limits over several workers: what counts, and what each worker holds.

Everything that a worker holds counts as used. When a request lacks room at its worker and here, the
other workers give back what they hold before it is refused, so no request is refused while any
process has room for it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from gateway.config.schema.limits import Limit
from gateway.limits.ledger import Account, LimitRefusal, Quantity
from gateway.limits.limits import RequestLimits
from gateway.limits.messages import (
    PART,
    LimitAmounts,
    LimitAsk,
    LimitDenial,
    LimitGrant,
    LimitRecall,
    LimitReport,
    LimitUses,
    ToLeader,
    ToWorker,
    Use,
)
from gateway.limits.standing import LimitPlace, LimitStanding, standings
from gateway.limits.window import Seats, Window

RECALL_S: Final = 0.25
"""How long to wait for what other workers give back; a worker that hangs gives nothing."""

_MANY_LENT: Final = 10_000
"""Accounts with holders from which on those without any are forgotten."""

Send = Callable[[ToWorker], None]
Place = tuple[str, str]


class _Lent(Struct, eq=False, gc=False):
    """What one worker holds of one account. running: see LimitUses."""

    requests: int = 0
    tokens: int = 0
    seats: int = 0
    running: int = 0


class _Recalling(Struct, eq=False):
    """Requests that wait until other workers have given back what they hold."""

    places: tuple[Place, ...]
    missing: set[int]
    asks: list[tuple[int, LimitAsk]]
    timer: asyncio.TimerHandle


class LimitBank:
    """The accounts of all workers, in the leader."""

    def __init__(
        self,
        limits: Callable[[], tuple[Limit, ...]],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """limits: the current configuration's, never older than a worker's. clock: nanoseconds."""
        self._current = limits
        self._configured: tuple[Limit, ...] = ()
        self._accounts = RequestLimits(self._configured, clock)
        self._clock = clock
        self._workers: dict[int, Send] = {}
        self._lent: dict[Place, dict[int, _Lent]] = {}
        self._most_lent = _MANY_LENT
        self._recalls: dict[int, _Recalling] = {}
        self._last_recall = 0

    def join(self, worker: int, send: Send) -> None:
        self._workers[worker] = send

    def leave(self, worker: int) -> None:
        """A worker has exited. Its seats are free; the rest may have been used, so it counts."""
        self._workers.pop(worker, None)
        at = self._clock()
        for place, holders in self._lent.items():
            held, account = holders.pop(worker, None), self._accounts.account(*place)
            if held is None or account is None:
                continue
            if account.requests is not None:
                account.requests.book(at + account.requests.period, held.requests, at)
            if account.tokens is not None:
                account.tokens.book(at + account.tokens.period, held.tokens, at)
            if account.seats is not None:
                account.seats.room += held.seats
            _sum_running(account, holders)
        for number in tuple(self._recalls):
            self._gave_back(number, worker)

    def lend(self, worker: int, grant: LimitGrant) -> None:
        """Count what another process has granted to a worker."""
        self._refresh()
        for one in grant.granted:
            account = self._accounts.account(one.limit, one.subject)
            if account is not None:
                self._lend(worker, account, one, scarce=True)

    def held(self, worker: int) -> dict[tuple[str, str, Quantity], int]:
        """What a worker holds, by limit, subject and quantity."""
        found: dict[tuple[str, str, Quantity], int] = {}
        for place, holders in self._lent.items():
            held = holders.get(worker)
            if held is not None:
                found[*place, "requests"] = held.requests
                found[*place, "tokens"] = held.tokens
                found[*place, "concurrent"] = held.seats
        return {place: amount for place, amount in found.items() if amount}

    def on_message(self, worker: int, message: ToLeader) -> None:
        self._refresh()
        match message:
            case LimitAsk():
                self._ask(worker, message)
            case LimitReport():
                at = self._clock()
                for uses in message.uses:
                    self._book(worker, uses, at)
                if message.recall:
                    self._gave_back(message.recall, worker)

    def accounts(self) -> list[Account]:
        """All accounts that were ever needed, by the current configuration."""
        self._refresh()
        return self._accounts.accounts()

    def account(self, limit: str, subject: str) -> Account | None:
        """The account of a limit's subject; `None` if the limit does not exist."""
        self._refresh()
        return self._accounts.account(limit, subject)

    async def standings(self, places: Sequence[LimitPlace]) -> tuple[LimitStanding, ...]:
        """What is used of the limits in force at these places, by all workers."""
        self._refresh()
        return standings(self._accounts, places, self._clock())

    def _refresh(self) -> None:
        limits = self._current()
        if limits is not self._configured:
            self._configure(limits)

    def _configure(self, limits: tuple[Limit, ...]) -> None:
        """Apply new limits. What workers hold of accounts that begin again counts no more."""
        before = {place: self._accounts.account(*place) for place in self._lent}
        self._configured = limits
        self._accounts.configure(limits)
        for place, old in before.items():
            new = self._accounts.account(*place)
            if old is None or new is None:
                del self._lent[place]
                continue
            for name in ("requests", "tokens", "seats"):
                if getattr(new, name) is not getattr(old, name):
                    for held in self._lent[place].values():
                        setattr(held, name, 0)
                        if name == "tokens":
                            held.running = 0

    def running(self, worker: int) -> dict[Place, int]:
        """The tokens that a worker's running requests have reserved, by limit and subject."""
        return {
            place: held.running
            for place, holders in self._lent.items()
            if (held := holders.get(worker)) is not None and held.running
        }

    def _ask(self, worker: int, ask: LimitAsk) -> None:
        for one, running in zip(ask.lacking, ask.running, strict=True):
            self._run((one.limit, one.subject), worker, running)
        answer = self._grant(worker, ask)
        if isinstance(answer, LimitDenial) and answer.wait is not None:
            places = tuple((one.limit, one.subject) for one in ask.lacking)
            others = {
                other for place in places for other in self._lent.get(place, ()) if other != worker
            }
            if others:
                self._recall(places, others, worker, ask)
                return
        self._workers[worker](answer)

    def _recall(
        self, places: tuple[Place, ...], others: set[int], worker: int, ask: LimitAsk
    ) -> None:
        for running in self._recalls.values():
            if running.places == places and others <= running.missing:
                running.asks.append((worker, ask))
                return
        self._last_recall += 1
        number = self._last_recall
        timer = asyncio.get_running_loop().call_later(RECALL_S, self._decide, number)
        self._recalls[number] = _Recalling(places, set(others), [(worker, ask)], timer)
        for other in others:
            self._workers[other](LimitRecall(id=number, accounts=places))

    def _gave_back(self, number: int, worker: int) -> None:
        recall = self._recalls.get(number)
        if recall is None:
            return
        recall.missing.discard(worker)
        if not recall.missing:
            self._decide(number)

    def _decide(self, number: int) -> None:
        """Answer what waited for a recall."""
        recall = self._recalls.pop(number)
        recall.timer.cancel()
        for worker, ask in recall.asks:
            if worker in self._workers:
                self._workers[worker](self._grant(worker, ask, scarce=True))

    def _grant(
        self, worker: int, ask: LimitAsk, *, scarce: bool = False
    ) -> LimitGrant | LimitDenial:
        """Lease what is lacking, and some more unless it is scarce; or nothing at all."""
        at = self._clock()
        wanted: list[tuple[Account, LimitAmounts]] = []
        refusals: list[LimitRefusal] = []
        for one in ask.lacking:
            account = self._accounts.account(one.limit, one.subject)
            if account is not None:
                wanted.append((account, one))
                refusals += account.refusals(one.requests, one.tokens, one.seats, at)
        if refusals:
            found = max(refusals, key=LimitRefusal.lasting)
            return LimitDenial(
                id=ask.id,
                limit=found.limit,
                per=found.per,
                quantity=found.quantity,
                allowed=found.allowed,
                wait=found.wait,
                reserved=found.reserved,
            )
        granted = [self._lend(worker, account, one, scarce=scarce) for account, one in wanted]
        return LimitGrant(id=ask.id, granted=tuple(granted), left=tuple(map(_left, wanted)))

    def _lend(
        self, worker: int, account: Account, need: LimitAmounts, *, scarce: bool
    ) -> LimitAmounts:
        share = 0 if scarce else 4 * len(self._workers)
        requests = _lent(account.requests, need.requests, share)
        tokens = _lent(account.tokens, need.tokens, share)
        seats = _lent(account.seats, need.seats, share)
        held = self._holder(worker, (account.limit, account.subject))
        held.requests += requests
        held.tokens += tokens
        held.seats += seats
        return LimitAmounts(account.limit, account.subject, requests, tokens, seats)

    def _book(self, worker: int, uses: LimitUses, at: int) -> None:
        account = self._accounts.account(uses.limit, uses.subject)
        if account is None:
            return
        held = self._holder(worker, (uses.limit, uses.subject))
        back, over = uses.returned, uses.overdrawn
        if account.requests is not None:
            held.requests = settled(
                account.requests, held.requests, uses.requests, back.requests, over.requests, at
            )
        if account.tokens is not None:
            held.tokens = settled(
                account.tokens, held.tokens, uses.tokens, back.tokens, over.tokens, at
            )
        if account.seats is not None:
            seats = min(back.seats, held.seats)
            account.seats.room += seats
            held.seats -= seats
        self._run((uses.limit, uses.subject), worker, uses.running)

    def _run(self, place: Place, worker: int, running: int) -> None:
        """Note what a worker's running requests have reserved."""
        account = self._accounts.account(*place)
        if account is not None and account.tokens is not None:
            self._holder(worker, place).running = running
            _sum_running(account, self._lent[place])

    def _holder(self, worker: int, place: Place) -> _Lent:
        if len(self._lent) >= self._most_lent and place not in self._lent:
            self._drop_empty()
        return self._lent.setdefault(place, {}).setdefault(worker, _Lent())

    def _drop_empty(self) -> None:
        """Forget accounts of which no worker holds anything; see RequestLimits._drop_unused."""
        for place, holders in tuple(self._lent.items()):
            if not any(
                one.requests or one.tokens or one.seats or one.running for one in holders.values()
            ):
                del self._lent[place]
        self._most_lent = max(_MANY_LENT, 2 * len(self._lent))


def _sum_running(account: Account, holders: Mapping[int, _Lent]) -> None:
    if account.tokens is not None:
        account.tokens.running = sum([one.running for one in holders.values()])


def _lent(part: Window | Seats | None, need: int, share: int) -> int:
    """Take a lease out of the room. share: how many such leases the room is for; 0: no advance."""
    if part is None or not need:
        return 0
    advance = min((part.room - need) // share, part.limit // PART) if share else 0
    amount = need + max(advance, 0)
    part.lend(amount)
    return amount


def settled(
    window: Window, held: int, uses: Sequence[Use], returned: int, overdrawn: int, at: int
) -> int:
    """Book uses, and return what the worker still holds.

    A worker can only give back or use what it holds: the rest is of a window that a reload ended.
    """
    window.lend(overdrawn)
    held += overdrawn
    for expires, amount in uses:
        known = min(amount, held)
        window.book(expires, known, at)
        held -= known
    known = min(returned, held)
    window.give_back(known)
    return held - known


def _left(wanted: tuple[Account, LimitAmounts]) -> LimitAmounts:
    account, _ = wanted
    requests = 0 if account.requests is None else account.requests.room
    tokens = 0 if account.tokens is None else account.tokens.room
    return LimitAmounts(account.limit, account.subject, requests, tokens)
