"""Keys share a pool's connections: bounds, turns, and slots that are always given back."""

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.backends.upstream.own_limits import ConnectionsInUse
from strowger_gateway.gateway.backends.upstream.sending import PartSending
from strowger_gateway.gateway.backends.upstream.wire.connection import HttpConnection
from strowger_gateway.gateway.backends.upstream.wire.deadlines import Deadlines
from strowger_gateway.gateway.backends.upstream.wire.http_message import Limits
from strowger_gateway.gateway.backends.upstream.wire.pool import Pool
from strowger_gateway.schemas.errors import GatewayError, Unavailable, UpstreamUnreachable
from strowger_gateway.schemas.holdings import ANONYMOUS, AT_ONCE, Holder
from tests.gateway.backends.upstream.wire.exchanging import Nowhere, Open, post, soon
from tests.stand_ins.doubles import answering, raw_server, sized

pytestmark = pytest.mark.anyio

A, B, C = Holder("a"), Holder("b"), Holder("c")
HOLDERS = (A, B, C, Holder("d", "team"), Holder("e", "team"), ANONYMOUS)


class Rig:
    """A pool whose connections lead nowhere. broken: how many of the next dials fail."""

    def __init__(self, maximum: int) -> None:
        self.dialled: list[HttpConnection] = []
        self.broken = 0
        self.dial_turns = 0
        deadlines = Deadlines()
        self._new = lambda: HttpConnection("up", self.pool, deadlines, Limits())
        self.pool = Pool(self.dial, deadlines, upstream="up", maximum=maximum, idle_s=60.0)

    async def dial(self, by: float) -> HttpConnection:
        for _ in range(self.dial_turns):
            await asyncio.sleep(0)
        if self.broken:
            self.broken -= 1
            raise UpstreamUnreachable("no connection", upstream="up")
        connection = self._new()
        connection.connection_made(Nowhere())
        self.dialled.append(connection)
        return connection

    async def take(self, holder: Holder, by: float | None = None) -> HttpConnection:
        """Take a connection as a transport does."""
        idle = self.pool.take_idle(holder)
        return idle or await self.pool.acquire(soon() if by is None else by, holder)

    async def fill(self, holder: Holder, number: int) -> list[HttpConnection]:
        return [await self.take(holder) for _ in range(number)]


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_key_leaves_the_last_eighth_of_the_connections_to_others() -> None:
    rig = Rig(8)
    held = await rig.fill(A, 7)

    waiting = asyncio.ensure_future(rig.take(A))
    await turns()
    other = await rig.take(B)

    assert not waiting.done()
    assert len({*held, other}) == 8
    held[0].release()
    assert await waiting is held[0]


async def test_the_only_key_may_use_all_of_them() -> None:
    rig = Rig(8)

    assert len(await rig.fill(ANONYMOUS, 8)) == 8


async def test_idle_connections_of_a_key_at_its_bound_are_for_others() -> None:
    rig = Rig(8)
    for connection in await rig.fill(ANONYMOUS, 8):
        connection.release()
    await rig.fill(A, 7)

    assert rig.pool.take_idle(A) is None
    assert await rig.take(B) in rig.dialled
    assert len(rig.dialled) == 8


async def test_keys_that_wait_take_turns_and_teams_count_as_one() -> None:
    rig, order = Rig(2), list[str]()
    held = await rig.fill(ANONYMOUS, 2)

    async def ask(holder: Holder) -> None:
        connection = await rig.take(holder)
        order.append(holder.team or holder.key)
        await turns(2)
        connection.release()

    asks = [ask(holder) for holder in (*[A] * 4, *[Holder(f"m{n}", "many") for n in range(4)], B)]
    tasks = [asyncio.ensure_future(one) for one in asks]
    await turns()
    for connection in held:
        connection.release()
    await asyncio.gather(*tasks)

    assert set(order[:3]) == {"a", "many", "b"}
    assert order[3:7].count("many") == 2


async def test_a_key_at_its_bound_gets_429_and_any_other_503() -> None:
    rig = Rig(8)
    await rig.fill(A, 7)
    with pytest.raises(ConnectionsInUse, match="the API key uses as many connections") as own:
        await rig.take(A, by=soon(0.0))
    await rig.take(C)
    sending = PartSending()
    with pytest.raises(ConnectionsInUse, match="all connections to this provider") as full:
        await rig.pool.acquire(soon(0.01), B, sending=sending)

    assert (own.value.status, full.value.status) == (429, 503)
    assert own.value.retry_after == full.value.retry_after == 1
    assert sending.unread
    assert not sending.waiting
    assert sending.waited_s > 0
    assert rig.pool.waiting == 0


async def test_both_transports_keep_the_last_eighth_and_give_every_connection_back(
    open_transport: Open,
) -> None:
    async with raw_server(answering([sized(b"hello")[:-1], 60])) as server:
        transport = open_transport(server.base_url, max_connections=8)
        held = [await post(transport, holder=A) for _ in range(7)]
        with pytest.raises(ConnectionsInUse, match="the API key uses as many"):
            await asyncio.wait_for(post(transport, holder=A, level=AT_ONCE), 20)
        with pytest.raises(ConnectionsInUse, match="the API key uses as many"):
            await asyncio.wait_for(post(transport, holder=A, connect=0.05), 20)
        held.append(await post(transport, holder=B))
        queued = asyncio.ensure_future(post(transport, holder=C))
        await asyncio.sleep(0.05)
        waited = not queued.done()

        await held.pop(0).aclose()
        held.append(await asyncio.wait_for(queued, 20))
        for reply in held:
            await reply.aclose()
        again = [await post(transport) for _ in range(8)]
        for reply in again:
            await reply.aclose()

    assert waited


async def test_a_dial_that_fails_gives_its_slot_to_who_waits() -> None:
    rig = Rig(1)
    rig.dial_turns, rig.broken = 10, 1
    first = asyncio.ensure_future(rig.take(A))
    await turns(2)
    waiting = asyncio.ensure_future(rig.take(B))

    with pytest.raises(UpstreamUnreachable):
        await first
    connection = await waiting

    assert rig.pool.held == 1
    connection.release()
    assert rig.pool.held == 0


async def test_a_cancelled_dial_gives_its_slot_to_who_waits() -> None:
    rig = Rig(1)
    rig.dial_turns = 10
    first = asyncio.ensure_future(rig.take(A))
    await turns(4)
    waiting = asyncio.ensure_future(rig.take(B))
    await turns(2)

    first.cancel()
    connection = await waiting

    connection.release()
    assert rig.pool.held == 0


async def test_many_requests_that_leave_at_once_leave_nothing_behind() -> None:
    rig = Rig(8)
    held = await rig.fill(A, 7)
    waiting = [asyncio.ensure_future(rig.take(A)) for _ in range(200)]
    await turns()

    for connection in held:
        connection.release()
    for one in waiting:
        one.cancel()
    await turns()

    assert (rig.pool.held, rig.pool.waiting) == (0, 0)


@given(seed=st.integers(0, 2**32), maximum=st.sampled_from((1, 2, 3, 8, 17)))
def test_whatever_happens_every_slot_comes_back_and_bounds_hold(seed: int, maximum: int) -> None:
    async def storm() -> None:
        draw, rig = random.Random(seed), Rig(maximum)
        tasks, busy = list[asyncio.Task[None]](), Counter[str]()
        most = max(1, maximum - -(-maximum // 8)) if maximum > 1 else 1

        async def ask(holder: Holder) -> None:
            connection = await rig.take(holder, soon(draw.choice((0.0, 60.0, 60.0))))
            busy[holder.key] += 1
            try:
                assert sum(busy.values()) <= maximum
                assert not holder.key or busy[holder.key] <= most
                await turns(draw.randint(0, 4))
                while draw.random() < 0.2:
                    connection.abort()
                    connection = await rig.pool.replace(connection, soon())
                if draw.random() < 0.2:
                    connection.eof_received()
            except GatewayError:
                connection = None
                raise
            except asyncio.CancelledError:
                if connection.usable:
                    connection.release()
                connection = None
                raise
            finally:
                busy[holder.key] -= 1
                if connection is not None:
                    connection.release()

        closes = draw.random() < 0.2
        for step in range(80):
            rig.dial_turns = draw.randint(0, 3)
            match draw.randint(0, 9):
                case 0 | 1 if tasks:
                    draw.choice(tasks).cancel()
                case 2:
                    rig.broken += 1
                case 3 if idle := [one for one in rig.dialled if one.idle]:
                    draw.choice(idle).drop()
                case 4:
                    await turns(draw.randint(1, 6))
                case 5 if closes and step > 60:
                    rig.pool.close()
                case _:
                    tasks.append(asyncio.create_task(ask(draw.choice(HOLDERS))))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        assert (rig.pool.held, rig.pool.waiting) == (0, 0)
        allowed = (ConnectionsInUse, UpstreamUnreachable, Unavailable, asyncio.CancelledError)
        assert all(one is None or isinstance(one, allowed) for one in outcomes)
        if not closes:
            rig.broken = 0
            assert len(await rig.fill(ANONYMOUS, maximum)) == maximum

    asyncio.run(asyncio.wait_for(storm(), 20))
