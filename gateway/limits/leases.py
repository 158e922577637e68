"""A worker's side of limits over several workers: ask the leader, and report what was used."""

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from msgspec import Struct

from gateway.limits.credit import LimitCredit
from gateway.limits.leased import LeasedSeats, LeasedWindow
from gateway.limits.ledger import Account, Accounts, Hold, LimitRefusal
from gateway.limits.limits import RequestLimits
from gateway.limits.messages import (
    LimitAmounts,
    LimitAsk,
    LimitDenial,
    LimitGrant,
    LimitOutage,
    LimitRecall,
    LimitReport,
    LimitUses,
    ToLeader,
    ToWorker,
    Use,
)
from gateway.limits.window import Window
from schemas.errors import Unavailable

REPORT_S: Final = 0.1
"""Interval between reports of uses; IDLE_REPORTS counts them."""

MOST_TRIES: Final = 8
"""Answers for one request; more than two are needed only while a reload removes a limit."""

ASK_S: Final = 4.0
"""How long a request waits for the leader's answer."""


class _Asking(Struct, eq=False):
    """A request that waits for the leader."""

    accounts: Accounts
    tokens: int
    answer: asyncio.Future[Hold | LimitRefusal | None]


class LimitLeases:
    """The leases of one worker."""

    def __init__(
        self,
        limits: RequestLimits,
        send: Callable[[ToLeader], None],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """limits: of this worker; their accounts become leases. clock: nanoseconds."""
        self._limits = limits
        self._send = send
        self._clock = clock
        self._ids = count(clock())  # unlike those of a process that this one replaces
        self._asking: dict[int, _Asking] = {}
        self._credit = LimitCredit()
        limits.lease(self)

    async def ask(self, accounts: Accounts, tokens: int) -> Hold | LimitRefusal:
        """Reserve a request that lacks room here, with what the leader leases for it."""
        refusal = accounts.too_large(tokens)
        if refusal is not None:
            return refusal
        hold = self._on_credit(accounts, tokens)
        if hold is not None:
            return hold
        result = await self._ask(accounts, tokens, _lacking(accounts, tokens))
        for _ in range(MOST_TRIES):
            if result is not None:
                return result
            # Another request took what was here, so lease all that this one needs.
            result = await self._ask(accounts, tokens, _lacking(accounts, tokens, alone=True))
        raise Unavailable("the limits change at the moment", retry_after=1)

    def _on_credit(self, accounts: Accounts, tokens: int) -> Hold | None:
        """Reserve a request at once if all limits that lack room allow it; ask without waiting."""
        lacking = _lacking(accounts, tokens)
        running = _running(accounts, lacking)
        ask = LimitAsk(id=next(self._ids), lacking=lacking, running=running)
        hold = self._credit.reserve(accounts, tokens, ask, self._clock())
        if hold is not None:
            self._send(LimitReport(recall=0, uses=_uses(accounts.all, recalled=False)))
            self._send(ask)
        return hold

    async def _ask(
        self, accounts: Accounts, tokens: int, lacking: tuple[LimitAmounts, ...]
    ) -> Hold | LimitRefusal | None:
        number, loop = next(self._ids), asyncio.get_running_loop()
        answer: asyncio.Future[Hold | LimitRefusal | None] = loop.create_future()
        self._asking[number] = _Asking(accounts, tokens, answer)
        timer = loop.call_later(ASK_S, _time_out, answer)
        self._send(LimitAsk(id=number, lacking=lacking, running=_running(accounts, lacking)))
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled():
                hold = answer.result()
                if isinstance(hold, Hold):
                    hold.settle(0, self._clock())
            raise
        finally:
            timer.cancel()
            del self._asking[number]

    def on_message(self, message: ToWorker) -> None:
        match message:
            case LimitGrant():
                self._granted(message)
            case LimitDenial():
                asking = self._asking.get(message.id)
                if asking is not None and not asking.answer.done():
                    refusal = LimitRefusal(
                        message.limit,
                        message.per,
                        message.quantity,
                        message.allowed,
                        message.wait,
                        message.reserved,
                    )
                    asking.answer.set_result(refusal)
            case LimitOutage():
                asking = self._asking.get(message.id)
                if asking is not None and not asking.answer.done():
                    why = "limits cannot be checked, because Redis does not answer"
                    asking.answer.set_exception(Unavailable(why, retry_after=1))
            case LimitRecall():
                places = frozenset(message.accounts)
                busy = self._limits.busy
                accounts = [one for one in busy if (one.limit, one.subject) in places]
                self._send(LimitReport(recall=message.id, uses=_uses(accounts, recalled=True)))

    async def report(self) -> None:
        """Report what was used every REPORT_S until cancelled, and give back idle leases."""
        while True:
            await asyncio.sleep(REPORT_S)
            busy = tuple(self._limits.busy)
            uses = _uses(busy, recalled=False)
            if uses:
                self._send(LimitReport(recall=0, uses=uses))
            at = self._clock()
            self._limits.busy.difference_update([one for one in busy if _rests(one, at)])

    def _granted(self, grant: LimitGrant) -> None:
        """Add to the leases, and reserve the request before another one can take its part."""
        self._credit.repaid(grant)
        asking = self._asking.get(grant.id)
        own = () if asking is None else asking.accounts.all
        for one, left in zip(grant.granted, grant.left, strict=True):
            # The request's own account: it may have been dropped as unused while it waited.
            place = one.limit, one.subject
            known = [account for account in own if (account.limit, account.subject) == place]
            account = known[0] if known else self._limits.account(*place)
            if account is None:
                continue
            self._limits.busy.add(account)
            if isinstance(account.requests, LeasedWindow):
                account.requests.change(one.requests)
                account.requests.elsewhere = left.requests
            if isinstance(account.tokens, LeasedWindow):
                account.tokens.change(one.tokens)
                account.tokens.elsewhere = left.tokens
            if isinstance(account.seats, LeasedSeats):
                account.seats.add(one.seats)
        if asking is not None and not asking.answer.done():
            hold = asking.accounts.reserve(asking.tokens, self._clock())
            asking.answer.set_result(hold)


def _rests(account: Account, at: int) -> bool:
    """Whether there is nothing of it to report until something happens in it."""
    parts = [one for one in (account.requests, account.tokens) if isinstance(one, LeasedWindow)]
    resting = [one.rest(at) for one in parts]
    return all(resting) and (account.seats is None or account.seats.unused)


def _time_out(answer: "asyncio.Future[Hold | LimitRefusal | None]") -> None:
    if not answer.done():
        answer.set_exception(Unavailable("the leader process does not answer", retry_after=1))


def _lacking(accounts: Accounts, tokens: int, *, alone: bool = False) -> tuple[LimitAmounts, ...]:
    """What a request needs beyond the leases; alone: as if other requests took all of them."""
    found: list[LimitAmounts] = []
    for one in accounts.all:
        amounts = [
            max(0, need - (min(part.room, 0) if alone else part.room)) if part and need else 0
            for part, need in ((one.requests, 1), (one.tokens, tokens), (one.seats, 1))
        ]
        if any(amounts):
            found.append(LimitAmounts(one.limit, one.subject, *amounts))
    return tuple(found)


def _running(accounts: Accounts, lacking: Sequence[LimitAmounts]) -> tuple[int, ...]:
    """The tokens that running requests have reserved of what lacks room."""
    known = {
        (one.limit, one.subject): 0 if one.tokens is None else one.tokens.running
        for one in accounts.all
    }
    return tuple([known[one.limit, one.subject] for one in lacking])


def _uses(accounts: Sequence[Account], *, recalled: bool) -> tuple[LimitUses, ...]:
    """What was used of the accounts, and what is given back. recalled: all that is unused."""
    found: list[LimitUses] = []
    for one in accounts:
        requests, back_requests, over_requests = _report(one.requests, recalled)
        tokens, back_tokens, over_tokens = _report(one.tokens, recalled)
        seats = one.seats
        back_seats = seats.report(recalled=recalled) if isinstance(seats, LeasedSeats) else 0
        window, running = one.tokens, 0
        changed = False
        if isinstance(window, LeasedWindow):
            running, changed = window.running, window.running != window.told
            window.told = running
        if (
            requests
            or tokens
            or any((back_requests, back_tokens, back_seats))
            or (over_requests or over_tokens or changed)
        ):
            place = one.limit, one.subject
            found.append(
                LimitUses(
                    *place,
                    requests,
                    tokens,
                    LimitAmounts(*place, back_requests, back_tokens, back_seats),
                    LimitAmounts(*place, over_requests, over_tokens),
                    running,
                )
            )
    return tuple(found)


def _report(window: Window | None, recalled: bool) -> tuple[tuple[Use, ...], int, int]:
    return window.report(recalled=recalled) if isinstance(window, LeasedWindow) else ((), 0, 0)
