"""Limits over several gateways: what processes ask and report goes to Redis, by one script.

Each process of each gateway is a holder. Without Redis, a limit with `on_outage: local` is kept by
each gateway for itself, from what its own processes have used; `refuse` refuses what no lease
covers.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from time import monotonic_ns
from typing import Final, cast

import msgspec

from strowger_gateway.gateway.config.schema.limits import Limit
from strowger_gateway.gateway.coordination.gateway_transport import (
    ScriptRunner,
    TransportUnavailable,
)
from strowger_gateway.gateway.governance.leases.messages import (
    LeaseAsk,
    LeaseDenial,
    LeaseGrant,
    LeaseOutage,
    LeaseReport,
    LeaseShare,
    Place,
    ToLeader,
    ToWorker,
    Use,
)
from strowger_gateway.gateway.governance.leases.pool import PART, Loan
from strowger_gateway.gateway.governance.limits.lease_leader import LimitLeaseLeader
from strowger_gateway.gateway.governance.limits.ledger import Account, LimitRefusal, Quantity
from strowger_gateway.gateway.governance.limits.limits import PERIODS
from strowger_gateway.gateway.governance.limits.over_gateways.limit_calls import (
    LimitCall,
    MissedUses,
)
from strowger_gateway.gateway.governance.limits.over_gateways.limit_script import (
    RESERVED_MS,
    SCRIPT,
    SILENT_MS,
    ScriptAnswer,
    ScriptItem,
    ScriptRequest,
)
from strowger_gateway.gateway.governance.limits.over_gateways.limit_shards import (
    KEY,
    given_back,
    key_of,
    merged,
    shards,
)
from strowger_gateway.gateway.governance.limits.over_gateways.shared_standings import (
    TurnTaker,
    shared_standings,
)
from strowger_gateway.gateway.governance.limits.standing import LimitPlace, LimitStanding

HEARTBEAT_S: Final = 1.0
"""Interval at which Redis learns what each process holds, and is tried while it does not answer."""

_MS: Final = 1_000_000
_TIMES: Final = str(SILENT_MS), str(RESERVED_MS)

_NOTHING: Final = Loan()

Send = Callable[[ToWorker[LimitRefusal]], None]

_log = logging.getLogger("strowger")
_encode = msgspec.json.Encoder().encode
_answer: msgspec.json.Decoder[ScriptAnswer] = msgspec.json.Decoder(ScriptAnswer)


class SharedLimits:
    """The connection of one gateway's processes to the limits in Redis: see LimitLeaseLeader."""

    def __init__(
        self,
        runner: ScriptRunner,
        name: str,
        limits: Callable[[], tuple[Limit, ...]],
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        """name: of this gateway. limits: the current configuration's. clock: nanoseconds."""
        self._runner = TurnTaker(runner)
        self._sharded = runner.sharded
        self._name = name
        self._limits = limits
        self._known: tuple[Limit, ...] = ()
        self._index: Mapping[str, Limit] = {}
        self._local = LimitLeaseLeader(limits, clock)
        self._clock = clock
        self._workers: dict[int, Send] = {}
        self._holders: dict[int, str] = {}
        self._starts = count(1)
        self._held: dict[tuple[str, Place], int] = {}
        self._calls: list[LimitCall] = []
        self._missed: dict[tuple[str, Place], MissedUses] = {}
        self._wake = asyncio.Event()
        self._due = False
        self.unavailable = False

    def join(self, worker: int, send: Send) -> None:
        """A process that replaces one of the same number is another holder in Redis."""
        self._workers[worker] = send
        self._holders[worker] = f"{self._name}:{worker}:{next(self._starts)}"
        self._local.join(worker, send)

    def leave(self, worker: int) -> None:
        """A process has exited: Redis notices its silence; its seats are free at once."""
        self._workers.pop(worker, None)
        self._local.leave(worker)
        holder = self._holders[worker]
        held = [place for by, place in self._held if by == holder]
        seats = [place for place in held if place[2] == "concurrent"]
        items = [self._item(place, back=self._held[holder, place]) for place in seats]
        self._call(worker, seats, items, None)
        for place in held:
            del self._held[holder, place]

    def accounts(self) -> list[Account]:
        """What the processes of this gateway have used, see LimitLeaseLeader.accounts."""
        return self._local.accounts()

    async def standings(self, places: Sequence[LimitPlace]) -> tuple[LimitStanding, ...]:
        """What is used over all gateways; of this one without Redis. See LimitLeaseLeader."""
        own = await self._local.standings(places)
        if self.unavailable:
            return own
        return await shared_standings(self._runner, self._named(), places, own)

    def on_message(self, worker: int, message: ToLeader) -> None:
        if not self._local.is_new(worker, message):
            return
        match message:
            case LeaseAsk():
                self._ask(worker, message)
            case LeaseReport():
                self._local.receive(worker, message)
                self._report(worker, message)

    async def run(self) -> None:
        """Talk to Redis until cancelled."""
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                calls, self._calls = self._calls, []
                if self._due:
                    # What was reported is in what a process holds; what it asks for is not.
                    reports = [call for call in calls if call.ask is None]
                    asks = [call for call in calls if call.ask is not None]
                    calls = [*reports, *self._holdings(), *asks]
                    self._due = False
                if calls:
                    await self._send(calls)
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        """Say what processes hold, for example for long streams; try an absent Redis."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            self._due = True
            if self.unavailable:
                self._calls.append(LimitCall(0, "", (), (), None))
            self._wake.set()

    def _holdings(self) -> list[LimitCall]:
        """One call per process with what it holds, as this leader knows it.

        It differs from what Redis knows if calls were lost, or answered after they were given up.
        """
        found: list[LimitCall] = []
        for worker, holder in self._holders.items():
            if worker not in self._workers:
                continue
            loans = self._local.loans(worker)
            places = {place for by, place in self._held if by == holder} | set(loans)
            items = [(one, self._holding(one, loans.get(one, _NOTHING))) for one in places]
            known = [(place, item) for place, item in items if item is not None]
            if known:
                parts = tuple(place for place, _ in known), tuple(item for _, item in known)
                found.append(LimitCall(worker, holder, *parts, None))
        return found

    def _holding(self, place: Place, loan: Loan) -> ScriptItem | None:
        return self._item(place, holds=loan.amount, running=loan.running)

    def _ask(self, worker: int, ask: LeaseAsk) -> None:
        if self.unavailable:
            self._ask_locally(worker, ask)
            return
        needs = [need for need in ask.needs if need.amount]
        items = [
            self._item(need.place, need=need.amount, running=_running(need.place, need.running))
            for need in needs
        ]
        self._call(worker, [need.place for need in needs], items, ask)

    def _report(self, worker: int, report: LeaseReport) -> None:
        items = [
            self._item(
                use.place,
                uses=use.used,
                back=use.returned,
                over=use.overdrawn,
                running=_running(use.place, use.running),
            )
            for use in report.uses
        ]
        self._call(worker, [use.place for use in report.uses], items, None)

    def _ask_locally(self, worker: int, ask: LeaseAsk) -> None:
        """Decide without Redis."""
        found = [self._named().get(need.place[0]) for need in ask.needs]
        if any(limit is not None and limit.on_outage == "refuse" for limit in found):
            why = "limits cannot be checked, because Redis does not answer"
            self._reply(worker, LeaseOutage(id=ask.id, why=why))
        else:
            self._local.receive(worker, ask)

    def _item(
        self,
        place: Place,
        need: int = 0,
        uses: Sequence[Use] = (),
        back: int = 0,
        over: int = 0,
        holds: int = -1,
        running: int = -1,
    ) -> ScriptItem | None:
        limit = self._named().get(place[0])
        if limit is None:
            return None
        allowed: int | None = getattr(limit, place[2])
        if allowed is None:
            return None
        at = self._clock()
        return ScriptItem(
            limit=allowed,
            period=0 if place[2] == "concurrent" else PERIODS[limit.per] // _MS,
            need=need,
            advance=allowed // PART if need else 0,
            uses=tuple([(-((at - expires) // _MS), amount) for expires, amount in uses]),
            back=back,
            over=over,
            holds=holds,
            running=running,
        )

    def _named(self) -> Mapping[str, Limit]:
        """The current limits by their names."""
        limits = self._limits()
        if limits is not self._known:
            self._known, self._index = limits, {limit.name: limit for limit in limits}
        return self._index

    def _call(
        self,
        worker: int,
        places: Sequence[Place],
        items: Sequence[ScriptItem | None],
        ask: LeaseAsk | None,
    ) -> None:
        known = [(place, item) for place, item in zip(places, items, strict=True) if item]
        if known or ask is not None:
            parts = tuple(place for place, _ in known), tuple(one for _, one in known)
            self._calls.append(LimitCall(worker, self._holders[worker], *parts, ask))
            self._wake.set()

    async def _send(self, calls: Sequence[LimitCall]) -> None:
        """Send calls in order. What was used is kept for Redis if it does not answer."""
        named = self._named()
        commands: list[tuple[str | bytes, ...]] = []
        split: list[list[list[int]]] = []
        for call in calls:
            split.append(shards(call.places, sharded=self._sharded))
            if not call.places:
                commands.append(("EXISTS", KEY))
            for part in split[-1]:
                places = [call.places[at] for at in part]
                keys = [
                    key_of(
                        place,
                        named[place[0]].per if place[0] in named else "",
                        sharded=self._sharded,
                    )
                    for place in places
                ]
                items = tuple([call.items[at] for at in part])
                body = _encode(ScriptRequest(holder=call.holder, items=items))
                commands.append(("EVAL", SCRIPT, str(len(keys)), *keys, body, *_TIMES))
        try:
            answers = await self._runner.run(commands)
        except TransportUnavailable as exc:
            self._lost(str(exc))
            for call in calls:
                if call.ask is None:
                    self._keep_uses(call)
                elif self._alive(call):
                    self._ask_locally(call.worker, call.ask)
            return
        if self.unavailable:
            _log.warning("Redis answers again: limits hold over all gateways")
            self.unavailable = False
            self._report_again()
        rest = iter(answers)
        for call, parts in zip(calls, split, strict=True):
            if call.places:
                found = [(part, _answer.decode(cast(bytes, next(rest)))) for part in parts]
                answer, unused = merged(len(call.places), found)
                self._answered(call, answer)
                self._give_back(call, unused)
                continue
            next(rest)
            if call.ask is not None and self._alive(call):
                self._ask_locally(call.worker, call.ask)

    def _give_back(self, call: LimitCall, unused: Sequence[int]) -> None:
        """Give back what some limits granted to a request that another one refused."""
        back = [at for at, amount in enumerate(unused) if amount]
        if back:
            places = tuple([call.places[at] for at in back])
            items = tuple([given_back(call.items[at], unused[at]) for at in back])
            self._calls.append(LimitCall(call.worker, call.holder, places, items, None))
            self._wake.set()

    def _keep_uses(self, call: LimitCall) -> None:
        """Redis may not have carried out this report: it counts again later, never not at all."""
        at = self._clock()
        for place, item in zip(call.places, call.items, strict=True):
            if item.uses or item.over:
                missed = self._missed.setdefault((call.holder, place), MissedUses())
                missed.over += item.over
                for left, amount in item.uses:
                    expires = at + left * _MS
                    missed.uses[expires] = missed.uses.get(expires, 0) + amount

    def _report_again(self) -> None:
        missed, self._missed = self._missed, {}
        at = self._clock()
        workers = {holder: worker for worker, holder in self._holders.items()}
        for (holder, place), one in missed.items():
            uses = [(expires, amount) for expires, amount in one.uses.items() if expires > at]
            item = self._item(place, uses=uses, over=one.over)
            if item is not None:
                self._calls.append(
                    LimitCall(workers.get(holder, -1), holder, (place,), (item,), None)
                )
                self._wake.set()

    def _lost(self, why: str) -> None:
        if not self.unavailable:
            self.unavailable = True
            _log.warning("Redis is unreachable, limits hold per gateway: %s", why)

    def _answered(self, call: LimitCall, answer: ScriptAnswer) -> None:
        alive = self._alive(call)
        for place, mine in zip(call.places, answer.mine, strict=True):
            if mine and alive:
                self._held[call.holder, place] = mine
            else:
                self._held.pop((call.holder, place), None)
        ask = call.ask
        if ask is None or not alive:
            return
        if answer.refused:
            refusal = self._refusal(call, answer)
            self._reply(call.worker, LeaseDenial(id=ask.id, refusal=refusal))
            return
        shares = map(LeaseShare, call.places, answer.granted, answer.left)
        grant = LeaseGrant(id=ask.id, shares=tuple(shares))
        self._local.lent_elsewhere(call.worker, grant)
        self._reply(call.worker, grant)

    def _refusal(self, call: LimitCall, answer: ScriptAnswer) -> LimitRefusal:
        limit, _, quantity = call.places[answer.refused - 1]
        known = self._named().get(limit)
        return LimitRefusal(
            limit,
            "minute" if known is None else known.per,
            cast("Quantity", quantity),
            call.items[answer.refused - 1].limit,
            answer.wait * _MS,
            answer.reserved,
        )

    def _alive(self, call: LimitCall) -> bool:
        """Return whether the process that made the call still runs."""
        return call.worker in self._workers and self._holders[call.worker] == call.holder

    def _reply(self, worker: int, message: ToWorker[LimitRefusal]) -> None:
        send = self._workers.get(worker)
        if send is not None:
            send(message)


def _running(place: Place, running: int) -> int:
    """The number for Redis: only tokens are reserved until a request ends."""
    return running if place[2] == "tokens" else -1
