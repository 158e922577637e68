"""Connection pool of one origin; keys share its connections in turn."""

import asyncio
from collections.abc import Awaitable, Callable

from strowger_gateway.gateway.backends.upstream.own_limits import closing, in_use, own_wait
from strowger_gateway.gateway.backends.upstream.sending import UNWATCHED, Sending
from strowger_gateway.gateway.backends.upstream.wire.connection import HttpConnection
from strowger_gateway.gateway.backends.upstream.wire.deadlines import Deadlines
from strowger_gateway.gateway.backends.upstream.wire.pool_slots import PoolSlots
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fair_queue import Waiting
from strowger_gateway.schemas.holdings import ANONYMOUS, AT_ONCE, LEVEL, Holder


class Pool:
    """`maximum` slots; an exchange and a dial in progress each fill one.

    Idle connections fill none: a slot is taken with one of them, and a connection is opened only if
    none is idle, so that no more than `maximum` are open. They are taken newest first, so that
    surplus ones age and expire. Waiters are served in the turns of `schemas/fair_share.py`.
    """

    __slots__ = ("_closed", "_deadlines", "_dial", "_dialling", "_idle", "_idle_s", "_slots",
                 "_timed", "_upstream", "by")  # fmt: skip

    def __init__(
        self,
        dial: Callable[[float], Awaitable[HttpConnection]],
        deadlines: Deadlines,
        *,
        upstream: str,
        maximum: int,
        idle_s: float,
    ) -> None:
        self._dial = dial
        self._deadlines = deadlines
        self._upstream = upstream
        self._idle_s = idle_s
        self._idle: dict[HttpConnection, None] = {}
        self._slots: PoolSlots[HttpConnection, _Ticket] = PoolSlots(maximum)
        self._dialling: dict[asyncio.Future[HttpConnection], Holder] = {}  # the oldest first
        self._closed = False
        self.by = 0.0
        self._timed = False

    @property
    def held(self) -> int:
        """Return the number of slots in use."""
        return self._slots.held

    @property
    def waiting(self) -> int:
        """Return the number of requests in the queue."""
        return self._slots.waiting

    def take_idle(self, holder: Holder) -> HttpConnection | None:
        """Return an idle connection with its slot, if there is one and the pool is not contended.

        On the path of nearly every request: no coroutine, and no count per key.
        """
        slots = self._slots
        if not slots.room or not self._idle:
            return None
        slots.room -= 1
        connection, _ = self._idle.popitem()
        connection.idle = False
        connection.holder = holder
        return connection

    async def acquire(
        self,
        by: float,
        holder: Holder = ANONYMOUS,
        level: int = LEVEL,
        sending: Sending = UNWATCHED,
    ) -> HttpConnection:
        """Return a connection, idle or fresh, with its slot. sending: gets the time in the queue.

        Raises ConnectionsInUse at `by`, with the level AT_ONCE immediately, and the errors of
        dialling: UpstreamTimeout at `by`, UpstreamUnreachable.
        """
        await in_task()  # dialling has time limits of its own
        if self._closed:
            raise self._refusal()
        if self._slots.take(holder):
            connection = self._idle_for(holder)
        elif level == AT_ONCE:
            raise self.full(holder)
        else:
            connection = await self._queue(by, holder, level, sending)
        if connection is None:
            return await self._dialled(by, holder)
        return connection if connection.usable else await self.replace(connection, by)

    async def replace(self, connection: HttpConnection, by: float) -> HttpConnection:
        """Open a fresh connection for the slot of one that is lost; free the slot if that fails."""
        self._slots.disconnect(connection)
        try:
            await in_task()
            fresh = await self._dial(by)
        except BaseException:
            self._abandon(connection.holder)
            raise
        return self._connected(fresh, connection.holder)

    def keep(self, connection: HttpConnection) -> None:
        """See ConnectionOwner."""
        if self._closed:
            connection.abort()
            self.free(connection)
            return
        slots, holder = self._slots, connection.holder
        if self._dialling:
            granted = next(iter(self._dialling))
            connection.holder = self._dialling.pop(granted)
            slots.connect(connection)
            granted.set_result(connection)
        else:
            connection.idle = True
            connection.by = connection.clock() + self._idle_s
            self._idle[connection] = None
            if not self._timed:
                self._watch(connection.by)
        if slots.calm:
            slots.room += 1
        else:
            slots.give_back(holder)
            self._serve()

    def free(self, connection: HttpConnection) -> None:
        """See ConnectionOwner."""
        self._slots.lose(connection)
        self._slots.give_back(connection.holder)
        self._serve()

    def forget(self, connection: HttpConnection) -> None:
        """See ConnectionOwner."""
        self._idle.pop(connection, None)
        self._slots.lose(connection)

    def suspect(self, since: float) -> None:
        """Close idle connections that have shown no sign of life since then: see ConnectionOwner.

        What cut one of them (an address that moved, a NAT gateway that forgot) cut all of that age.
        """
        for connection in list(self._idle):
            if connection.by - self._idle_s > since:
                return  # so have those after it: they became idle later
            connection.drop()

    def expire(self) -> None:
        """Close connections that are idle for too long; the longest idle come first."""
        self._timed = False
        for connection in list(self._idle):
            if connection.by > self.by:
                self._watch(connection.by)
                return
            connection.drop()

    def _watch(self, by: float) -> None:
        self._timed = True
        self.by = by
        self._deadlines.add(self)

    def close(self) -> None:
        """Abort idle connections and fail waiters; exchanges continue and close when they end."""
        self._closed = True
        for ticket in self._slots.tickets():
            ticket.refuse(self._refusal())
        for connection in list(self._idle):
            connection.drop()
        self._deadlines.discard(self)
        self._deadlines.rest()

    def leave(self, ticket: "_Ticket", error: GatewayError) -> None:
        """Fail a waiter, which leaves the queue."""
        self._withdraw(ticket)
        ticket.granted.set_exception(error)

    def full(self, holder: Holder) -> GatewayError:
        """Return the error of a waiter whose time is over."""
        return in_use(self._upstream, at_bound=self._slots.at_bound(holder))

    async def _dialled(self, by: float, holder: Holder) -> HttpConnection:
        """Open a connection for a slot that has none, unless one becomes idle before.

        Free the slot if that fails.
        """
        granted: asyncio.Future[HttpConnection] = asyncio.get_running_loop().create_future()
        dial: asyncio.Future[HttpConnection] | None = None
        self._dialling[granted] = holder
        try:
            await in_task()
            dial = asyncio.ensure_future(self._dial(by))
            await asyncio.wait((dial, granted), return_when=asyncio.FIRST_COMPLETED)
            connection = granted.result() if granted.done() else dial.result()
        except BaseException:
            if granted.done():
                self._give_back(granted.result(), holder)
            else:
                self._abandon(holder)
            _stop(dial)
            raise
        finally:
            self._dialling.pop(granted, None)
        if granted.done():
            _stop(dial)
            return connection if connection.usable else await self.replace(connection, by)
        return self._connected(connection, holder)

    def _connected(self, connection: HttpConnection, holder: Holder) -> HttpConnection:
        connection.holder = holder
        self._slots.connect(connection)
        return connection

    def _abandon(self, holder: Holder) -> None:
        self._slots.abandon(holder)
        self._serve()

    def _idle_for(self, holder: Holder) -> HttpConnection | None:
        """Return an idle connection for a slot that was taken; `None` if it has to be dialled."""
        if not self._idle:
            self._slots.begin_dial(holder)
            return None
        connection, _ = self._idle.popitem()
        connection.idle = False
        connection.holder = holder
        return connection

    def _serve(self) -> None:
        """Give slots to those whose turn it is."""
        for ticket in self._slots.serve():
            if ticket.granted.done():  # its task is cancelled, but has not run since
                ticket.place = None
                self._slots.give_back(ticket.holder)
            else:
                ticket.place = None
                ticket.granted.set_result(self._idle_for(ticket.holder))
        self._slots.calm_down()

    async def _queue(
        self, by: float, holder: Holder, level: int, sending: Sending
    ) -> HttpConnection | None:
        """Wait for a slot; return its connection, or `None` if the caller has to dial."""
        ticket = _Ticket(by, holder, self)
        ticket.place = self._slots.wait(ticket, holder, level)
        self._deadlines.add(ticket)
        self._serve()
        try:
            with own_wait(sending):
                return await ticket.granted
        except asyncio.CancelledError:
            if ticket.queued:
                self._withdraw(ticket)
            elif not ticket.granted.cancelled() and ticket.granted.exception() is None:
                self._give_back(ticket.granted.result(), holder)
            raise
        finally:
            self._deadlines.discard(ticket)

    def _withdraw(self, ticket: "_Ticket") -> None:
        if ticket.place is not None:
            self._slots.withdraw(ticket.place)
            ticket.place = None
            self._serve()

    def _give_back(self, connection: HttpConnection | None, holder: Holder) -> None:
        if connection is None:
            self._abandon(holder)
        elif connection.usable:
            self.keep(connection)
        else:
            self.free(connection)

    def _refusal(self) -> GatewayError:
        return closing(self._upstream)


def _stop(dial: asyncio.Future[HttpConnection] | None) -> None:
    """End a dial whose connection is not needed any more."""
    if dial is not None:
        dial.cancel()
        dial.add_done_callback(_close)


def _close(dial: asyncio.Future[HttpConnection]) -> None:
    if not dial.cancelled() and dial.exception() is None:
        dial.result().abort()


class _Ticket:
    """A request in the queue. place: `None` from when its turn has come, or it has left."""

    __slots__ = ("_pool", "by", "granted", "holder", "place")

    def __init__(self, by: float, holder: Holder, pool: Pool) -> None:
        self.by = by
        self.holder = holder
        self._pool = pool
        self.place: Waiting[_Ticket] | None = None
        loop = asyncio.get_running_loop()
        self.granted: asyncio.Future[HttpConnection | None] = loop.create_future()

    @property
    def queued(self) -> bool:
        return self.place is not None

    def expire(self) -> None:
        self.refuse(self._pool.full(self.holder))

    def refuse(self, error: GatewayError) -> None:
        if not self.granted.done():
            self._pool.leave(self, error)
