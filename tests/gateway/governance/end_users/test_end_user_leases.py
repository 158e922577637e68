"""Limits of each end user over several workers: exact, and nothing stays leased or looked at."""

import asyncio
import random
from time import monotonic_ns

import pytest

from strowger_gateway.gateway.config.schema.limits import Limit, LimitWho
from strowger_gateway.gateway.governance.limits.ledger import Hold
from tests.gateway.governance.limits.test_leases import LeasingWorker, Office

pytestmark = pytest.mark.anyio


async def test_every_end_user_gets_exactly_the_limit_and_leases_come_back() -> None:
    """What ended early gives tokens back, also after its use was reported."""
    draws = random.Random(3)
    limit = Limit(
        name="l", who=LimitWho(any=True), each="end_user", requests=3, tokens=90, per="day"
    )
    office = Office(3, 3, limit)
    admitted = dict.fromkeys(map(str, range(40)), 0)

    async def request(worker: LeasingWorker, end_user: str) -> None:
        accounts = worker.limits.of(("web", "chat", "chat", "", "", end_user, ""))
        assert accounts is not None
        hold = accounts.reserve(30, monotonic_ns())
        found = hold or await worker.leases.ask(accounts, 30)
        if isinstance(found, Hold):
            admitted[end_user] += 1
            await asyncio.sleep(draws.choice((0, 0, 0.15, 0.3)))
            found.settle(draws.choice((10, 30)), monotonic_ns())

    for _ in range(5):
        await asyncio.gather(*(request(draws.choice(office.workers), name) for name in admitted))
    while any(worker.limits.busy for worker in office.workers):  # noqa: ASYNC110  no event says so
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.05)
    held = [office.leader.loans(worker.number) for worker in office.workers]
    used = {one.subject: (one.requests, one.tokens) for one in office.leader.accounts()}
    await office.close()

    assert set(admitted.values()) == {3}
    assert held == [{}, {}, {}]
    for requests, tokens in used.values():
        assert requests is not None
        assert tokens is not None
        assert (requests.room, requests.used) == (0, 3)
        assert 30 <= tokens.used <= 90
        assert tokens.room == 90 - tokens.used
