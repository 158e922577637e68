"""A worker's side of leases: ask the leader for what requests lack, and report what was used."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from time import monotonic_ns
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from strowger_gateway.gateway.governance.leases.messages import (
    LeaseAsk,
    LeaseDenial,
    LeaseGrant,
    LeaseNeed,
    LeaseOutage,
    LeaseRecall,
    LeaseReport,
    LeaseShare,
    LeaseUse,
    Place,
    RefusalT,
    ToLeader,
    ToWorker,
)
from strowger_gateway.schemas.errors import Unavailable

REPORT_S: Final = 0.1
"""Interval between reports; IDLE_REPORTS counts them."""

IDLE_REPORTS: Final = 10
"""Reports without a use, after which an unused lease is given back."""

MOST_TRIES: Final = 8
"""Answers for one request; more than two are needed only while a reload removes a rule."""

HoldT = TypeVar("HoldT")
_Answer = TypeVar("_Answer")


class LeasedQuantity(Protocol):
    """What is leased to this process of one place."""

    @property
    def place(self) -> Place: ...

    def add(self, share: LeaseShare) -> None:
        """Add to the lease."""
        ...

    def report(self, *, recalled: bool, age: int) -> LeaseUse | None:
        """Return what happened since the last report, with what is given back; `None`: nothing.

        recalled: give back all that is unused. age: how many reports older an unused lease is now.
        """
        ...

    def is_idle(self, at: int) -> bool:
        """Whether nothing is to be reported until a request uses it, or ends, which adds it to
        `LeasedRules.busy` again. at: nanoseconds."""
        ...


LeasedT = TypeVar("LeasedT", bound=LeasedQuantity)
OwnT = TypeVar("OwnT", bound=LeasedQuantity, covariant=True)


class LeasedRules(Protocol[LeasedT]):
    """The rules of one process. busy: what has a lease, or something to report."""

    @property
    def busy(self) -> set[LeasedT]: ...

    def leased(self, place: Place) -> LeasedT | None:
        """What is leased of a place; `None` if the current configuration does not have it."""
        ...


class LeasingRequest(Protocol[OwnT, HoldT]):
    """A request that lacks room in the leases. own: those that it reserves from."""

    @property
    def own(self) -> Sequence[OwnT]: ...

    def needs(self, *, alone: bool) -> tuple[LeaseNeed, ...]:
        """Return what it lacks; alone: as if other requests took all that is leased."""
        ...

    def reserve(self) -> HoldT | None:
        """Reserve it; `None` if a lease lacks room."""
        ...

    def release(self, hold: HoldT) -> None:
        """Free what it has reserved: its client has left."""
        ...


class _Asking(Struct, Generic[LeasedT, HoldT, RefusalT], eq=False):
    """A request that waits for the leader."""

    request: LeasingRequest[LeasedT, HoldT]
    answer: asyncio.Future[HoldT | RefusalT | None]
    hold: HoldT | None = None


class LeaseWorker(Generic[LeasedT, HoldT, RefusalT]):
    """The leases of one worker."""

    def __init__(
        self,
        name: str,
        rules: LeasedRules[LeasedT],
        send: Callable[[ToLeader], None],
        *,
        ask_s: float,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        """name: of the rules, for messages. ask_s: how long a request waits for an answer.

        clock: nanoseconds; later than when a process that this one replaces has begun.
        """
        self._name = name
        self._rules = rules
        self._send = send
        self._ask_s = ask_s
        self._clock = clock
        self._ids = count(clock())
        self._unanswered: set[int] = set()
        self._asking: dict[int, _Asking[LeasedT, HoldT, RefusalT]] = {}

    async def obtain(self, request: LeasingRequest[LeasedT, HoldT]) -> HoldT | RefusalT:
        """Reserve a request with what the leader lends for it. Raises Unavailable."""
        result = await self._ask(request, alone=False)
        for _ in range(MOST_TRIES):
            if result is not None:
                return result
            # Another request took what was here, so lease all that this one needs.
            result = await self._ask(request, alone=True)
        raise Unavailable(f"the {self._name} change at the moment", retry_after=1)

    def ask_ahead(self, number: int, needs: tuple[LeaseNeed, ...]) -> None:
        """Ask for leases that no request waits for. number: from `next_number`."""
        self._send_ask(LeaseAsk(id=number, needs=needs))

    def next_number(self) -> int:
        return next(self._ids)

    def _send_ask(self, ask: LeaseAsk) -> None:
        self._unanswered.add(ask.id)
        self._send(ask)

    async def _ask(
        self, request: LeasingRequest[LeasedT, HoldT], *, alone: bool
    ) -> HoldT | RefusalT | None:
        number, loop = self.next_number(), asyncio.get_running_loop()
        answer: asyncio.Future[HoldT | RefusalT | None] = loop.create_future()
        asking = self._asking[number] = _Asking(request, answer)
        timer = loop.call_later(self._ask_s, _time_out, answer)
        self._send_ask(LeaseAsk(id=number, needs=request.needs(alone=alone), alone=alone))
        try:
            return await answer
        except asyncio.CancelledError:
            if asking.hold is not None:
                request.release(asking.hold)
            elif answer.done() and not answer.cancelled():
                answer.exception()  # asyncio logs those that nothing has looked at
            raise
        finally:
            timer.cancel()
            del self._asking[number]

    def on_message(self, message: ToWorker[RefusalT]) -> None:
        """An answer that arrives again has no effect."""
        if isinstance(message, LeaseRecall):
            places = frozenset(message.places)
            leases = [one for one in self._rules.busy if one.place in places]
            self.report_of(leases, recall=message.id)
            return
        if message.id not in self._unanswered:
            return
        self._unanswered.remove(message.id)
        asking = self._asking.get(message.id)
        if isinstance(message, LeaseGrant):
            self._granted(message, asking)
        elif asking is not None and not asking.answer.done():
            match message:
                case LeaseDenial():
                    # Room may have come back here, or for a request that has left, after the ask.
                    asking.hold = asking.request.reserve()
                    asking.answer.set_result(asking.hold or message.refusal)
                case LeaseOutage():
                    asking.answer.set_exception(Unavailable(message.why, retry_after=1))

    async def report(self) -> None:
        """Report what was used every REPORT_S until cancelled, and give back idle leases."""
        while True:
            await asyncio.sleep(REPORT_S)
            busy = tuple(self._rules.busy)
            self.report_of(busy)
            at = self._clock()
            self._rules.busy.difference_update([one for one in busy if one.is_idle(at)])

    def report_of(self, leases: Iterable[LeasedT], *, recall: int = 0, age: int = 1) -> None:
        """Report what happened to these leases. recall: the id of the LeaseRecall, or 0.

        age: how many reports older an unused lease is now.
        """
        found = [one.report(recalled=recall != 0, age=age) for one in leases]
        uses = tuple([use for use in found if use is not None])
        if recall or uses or self.has_news():
            self._send(LeaseReport(id=self.next_number(), recall=recall, uses=uses))

    def has_news(self) -> bool:
        """Whether a report is due although nothing happened to the leases."""
        return False

    def _granted(self, grant: LeaseGrant, asking: _Asking[LeasedT, HoldT, RefusalT] | None) -> None:
        """Add to the leases, and reserve the request before another one can take its part."""
        own = {} if asking is None else {one.place: one for one in asking.request.own}
        for share in grant.shares:
            # The request's own lease: the process may have dropped it while the request waited.
            leased = own.get(share.place) or self._rules.leased(share.place)
            if leased is not None:
                leased.add(share)
                self._rules.busy.add(leased)
        if asking is not None and not asking.answer.done():
            asking.hold = asking.request.reserve()
            asking.answer.set_result(asking.hold)


def _time_out(answer: asyncio.Future[_Answer]) -> None:
    if not answer.done():
        answer.set_exception(Unavailable("the leader process does not answer", retry_after=1))
