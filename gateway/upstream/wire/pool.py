"""Connection pool of one origin, with a queue for waiters."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from gateway.eventloop.inline_task import in_task
from gateway.upstream.wire.connection import HttpConnection
from gateway.upstream.wire.deadlines import Deadlines
from schemas.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable


class Pool:
    """`maximum` slots; an idle connection, an exchange and a dial in progress each fill one.

    Idle connections are taken newest first, so that surplus ones age and expire. Waiters are served
    in order of arrival: a connection is idle or a slot free only while the queue is empty, so no
    request can overtake.
    """

    __slots__ = ("_closed", "_deadlines", "_dial", "_idle", "_idle_s", "_maximum", "_open",
                 "_timed", "_upstream", "_waiting", "by")  # fmt: skip

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
        self._maximum = maximum
        self._idle_s = idle_s
        self._open = 0
        self._idle: dict[HttpConnection, None] = {}
        self._waiting: OrderedDict[_Ticket, None] = OrderedDict()
        self._closed = False
        self.by = 0.0
        self._timed = False

    def take_idle(self) -> HttpConnection | None:
        """Return an idle connection with its slot, if there is one."""
        if not self._idle:
            return None
        connection, _ = self._idle.popitem()
        connection.idle = False
        return connection

    async def acquire(self, by: float) -> HttpConnection:
        """Return a connection, idle or fresh, with its slot.

        Raises UpstreamTimeout at `by`, UpstreamUnreachable if none can be opened.
        """
        await in_task()  # dialling has time limits of its own
        if self._closed:
            raise self._refusal()
        connection = self.take_idle()
        if connection is not None:
            return connection
        if self._open < self._maximum:
            self._open += 1
        else:
            connection = await self._queue(by)
            if connection is not None and connection.usable:
                return connection
        return await self.replace(by)

    async def replace(self, by: float) -> HttpConnection:
        """Open a fresh connection for a slot already held; free the slot if that fails."""
        try:
            return await self._dial(by)
        except BaseException:
            self.free()
            raise

    def keep(self, connection: HttpConnection) -> None:
        """See ConnectionOwner."""
        if self._closed:
            connection.abort()
            self.free()
        elif not self._hand_over(connection):
            connection.idle = True
            connection.by = connection.clock() + self._idle_s
            self._idle[connection] = None
            if not self._timed:
                self._watch(connection.by)

    def free(self) -> None:
        """See ConnectionOwner."""
        if not self._hand_over(None):
            self._open -= 1

    def forget(self, connection: HttpConnection) -> None:
        """See ConnectionOwner."""
        self._idle.pop(connection, None)
        self.free()

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
        for ticket in self._waiting:
            ticket.refuse(self._refusal())
        for connection in list(self._idle):
            connection.drop()
        self._deadlines.discard(self)
        self._deadlines.rest()

    def _hand_over(self, connection: HttpConnection | None) -> bool:
        """Give the slot to the longest waiter; return false if none waits."""
        while self._waiting:
            ticket, _ = self._waiting.popitem(last=False)
            if not ticket.granted.done():
                ticket.granted.set_result(connection)
                return True
        return False

    async def _queue(self, by: float) -> HttpConnection | None:
        """Wait for a slot; return its connection, or `None` if the caller has to dial."""
        ticket = _Ticket(by, self)
        self._waiting[ticket] = None
        self._deadlines.add(ticket)
        try:
            return await ticket.granted
        except asyncio.CancelledError:
            if not ticket.granted.cancelled() and ticket.granted.exception() is None:
                self._give_back(ticket.granted.result())
            raise
        finally:
            self._waiting.pop(ticket, None)
            self._deadlines.discard(ticket)

    def _give_back(self, connection: HttpConnection | None) -> None:
        if connection is not None and connection.usable:
            self.keep(connection)
        else:
            self.free()

    def _refusal(self) -> UpstreamError:
        return UpstreamUnreachable("its connections are being closed", upstream=self._upstream)

    def full(self) -> UpstreamError:
        """Return the error of a waiter whose time is over."""
        problem = f"no connection in time: the pool is full (max_connections: {self._maximum})"
        return UpstreamTimeout(problem, upstream=self._upstream)


class _Ticket:
    """A place in the queue."""

    __slots__ = ("_pool", "by", "granted")

    def __init__(self, by: float, pool: Pool) -> None:
        self.by = by
        self._pool = pool
        loop = asyncio.get_running_loop()
        self.granted: asyncio.Future[HttpConnection | None] = loop.create_future()

    def expire(self) -> None:
        self.refuse(self._pool.full())

    def refuse(self, error: UpstreamError) -> None:
        if not self.granted.done():
            self.granted.set_exception(error)
