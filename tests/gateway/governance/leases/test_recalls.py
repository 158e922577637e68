"""How long a request waits for what other workers hold, and what becomes of one that ends then."""

import asyncio
import random
from collections.abc import Callable

import pytest

from strowger_gateway.gateway.governance.leases.leader import RECALL_S
from strowger_gateway.gateway.governance.leases.messages import (
    LeaseDenial,
    LeaseGrant,
    LeaseOutage,
    LeaseShare,
    Place,
    ToLeader,
)
from strowger_gateway.gateway.governance.leases.worker import LeaseWorker
from strowger_gateway.schemas.errors import Unavailable
from tests.gateway.backends.upstream.skipping_loop import SkippingLoop
from tests.gateway.governance.leases.one_rule import (
    LATEST_S,
    Demand,
    Lease,
    Office,
    Reserved,
    Rules,
)

pytestmark = pytest.mark.anyio

PLACE: Place = ("rule", "", "n")


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Callable[[], asyncio.AbstractEventLoop]]]:
    return "asyncio", {"loop_factory": SkippingLoop}


def contended() -> Office:
    """Three workers and a rule that allows 8."""
    office = Office(random.Random(1), 3, {PLACE: 8})
    office.hangs = False
    return office


async def held(office: Office) -> None:
    """The first worker gets everything and uses nothing of it."""
    found = await office.workers[0].request([PLACE], [8])
    assert isinstance(found, Reserved)
    found.settle([0])


async def test_a_request_gets_what_another_worker_does_not_use() -> None:
    office = contended()
    await held(office)
    found = await office.workers[1].request([PLACE], [8])
    office.close()

    assert isinstance(found, Reserved)


async def test_a_request_whose_lease_another_one_took_gets_what_is_left_in_its_worker() -> None:
    office = contended()
    worker = office.workers[0]
    first = await worker.request([PLACE], [4])
    assert isinstance(first, Reserved)
    first.settle([0])
    large = asyncio.ensure_future(worker.request([PLACE], [6]))  # asks for 2
    await asyncio.sleep(0)
    small = await worker.request([PLACE], [2])
    found = await large
    office.close()

    assert isinstance(small, Reserved)
    assert isinstance(found, Reserved)


async def test_a_worker_that_hangs_delays_a_refusal_by_a_quarter_of_a_second() -> None:
    office, loop = contended(), asyncio.get_running_loop()
    await held(office)
    office.workers[0].alive = False  # its messages are not delivered
    began = loop.time()
    found = await office.workers[1].request([PLACE], [1])
    waited_s = loop.time() - began
    office.close()

    assert found == "no room at rule"
    assert RECALL_S <= waited_s < RECALL_S + 4 * LATEST_S


async def test_a_worker_that_waits_for_a_recall_gives_back_what_it_holds_itself() -> None:
    office = contended()
    hung, waiting, asker = office.workers
    for worker in (hung, waiting):
        found = await worker.request([PLACE], [4])
        assert isinstance(found, Reserved)
        found.settle([0])
    hung.alive = False
    first = asyncio.ensure_future(waiting.request([PLACE], [5]))
    await asyncio.sleep(2 * LATEST_S)
    found = await asker.request([PLACE], [3])
    refused = await first
    office.close()

    assert isinstance(found, Reserved)
    assert refused == "no room at rule"


async def test_what_another_worker_got_during_a_recall_is_recalled_again() -> None:
    office = contended()
    busy, asker, hung = office.workers
    for worker in (busy, hung):
        found = await worker.request([PLACE], [4])
        assert isinstance(found, Reserved)
        found.settle([0])
    hung.alive = False
    asking = asyncio.ensure_future(asker.request([PLACE], [3]))
    await asyncio.sleep(6 * LATEST_S)
    between = await busy.request([PLACE], [3])
    assert isinstance(between, Reserved)
    between.settle([0])
    found = await asking
    office.close()

    assert isinstance(found, Reserved)


async def test_a_request_that_is_denied_gets_what_its_worker_has_by_then() -> None:
    sent: list[ToLeader] = []
    rules = Rules()
    leases: LeaseWorker[Lease, Reserved, str] = LeaseWorker("rules", rules, sent.append, ask_s=1.0)
    lease = rules.leased(PLACE)
    asking = asyncio.ensure_future(leases.obtain(Demand((lease,), (3,))))
    await asyncio.sleep(0.01)
    lease.room += 3
    leases.on_message(LeaseDenial(id=sent[0].id, refusal="no room"))

    assert isinstance(await asking, Reserved)


async def test_a_worker_that_dies_delays_a_refusal_no_longer() -> None:
    office, loop = contended(), asyncio.get_running_loop()
    await held(office)
    office.workers[0].alive = False
    began = loop.time()
    asking = asyncio.ensure_future(office.workers[1].request([PLACE], [1]))
    await asyncio.sleep(4 * LATEST_S)
    office.kill(0)
    found = await asking
    waited_s = loop.time() - began
    office.close()

    assert found == "no room at rule", "what a worker that died held may have been used"
    assert waited_s < 6 * LATEST_S


async def test_a_worker_that_waited_and_died_leaves_nothing_lent_to_the_one_in_its_place() -> None:
    office = contended()
    await held(office)
    office.workers[0].alive = False
    asking = asyncio.ensure_future(office.workers[1].request([PLACE], [1]))
    await asyncio.sleep(4 * LATEST_S)
    office.kill(1)
    asking.cancel()
    office.leader.stocks[PLACE].limit = 100
    await asyncio.sleep(2 * RECALL_S)
    office.close()

    assert 1 not in office.leader.stocks[PLACE].loans


@pytest.mark.parametrize("outage", [True, False])
async def test_a_client_that_leaves_at_the_moment_of_the_answer_ends_as_one_that_left(
    *, outage: bool
) -> None:
    """Not as one that failed; and what was reserved for it is free."""
    sent: list[ToLeader] = []
    rules = Rules()
    leases: LeaseWorker[Lease, Reserved, str] = LeaseWorker("rules", rules, sent.append, ask_s=1.0)
    lease = rules.leased(PLACE)
    asking = asyncio.ensure_future(leases.obtain(Demand((lease,), (3,))))
    await asyncio.sleep(0.01)
    lease.room += 3
    if outage:
        leases.on_message(LeaseOutage(id=sent[0].id, why="Redis is away"))
    else:
        leases.on_message(LeaseGrant(id=sent[0].id, shares=()))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert lease.room == 3


async def test_a_request_fails_when_the_leader_does_not_answer() -> None:
    rules = Rules()
    leases: LeaseWorker[Lease, Reserved, str] = LeaseWorker(
        "rules", rules, lambda _: None, ask_s=1.0
    )
    with pytest.raises(Unavailable, match="the leader process does not answer"):
        await leases.obtain(Demand((rules.leased(PLACE),), (3,)))


async def test_a_grant_that_comes_after_its_request_has_failed_enters_the_lease() -> None:
    sent: list[ToLeader] = []
    rules = Rules()
    leases: LeaseWorker[Lease, Reserved, str] = LeaseWorker("rules", rules, sent.append, ask_s=1.0)
    lease = rules.leased(PLACE)
    with pytest.raises(Unavailable):
        await leases.obtain(Demand((lease,), (3,)))
    for _ in range(2):  # the second one is the first again
        leases.on_message(LeaseGrant(id=sent[0].id, shares=(LeaseShare(PLACE, 3),)))

    assert lease.room == 3
