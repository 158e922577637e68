"""Circuits that open on the failures of several gateways, each of which has seen too few."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.coordination.breaker_messages import (
    BreakerUpdate,
    NewOutcomes,
    OutcomeUpdate,
    OutcomeWatch,
    ToWorker,
)
from strowger_gateway.gateway.coordination.evidence_sum import Reported
from strowger_gateway.gateway.coordination.gateway_messages import notice
from strowger_gateway.gateway.coordination.gateway_sync import (
    FORGET_S,
    PEER_TIMEOUT_S,
    GatewaySync,
)
from strowger_gateway.gateway.coordination.outcome_reports import OutcomeReports
from strowger_gateway.gateway.coordination.probe_locks import LocalLeases
from strowger_gateway.gateway.coordination.redis_transport import RedisTransport
from strowger_gateway.gateway.coordination.shared_evidence import (
    MOST_REPORTED,
    MOST_WATCHED,
    EvidenceRules,
    SharedEvidence,
)
from strowger_gateway.gateway.coordination.state_hub import StateHub
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S
from tests.gateway.coordination.board import (
    CONFIG,
    KEY,
    Board,
    SimulatedGateway,
    config,
    health,
    look,
)
from tests.stand_ins.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.anyio

FLEET = 6
WINDOW_S = 30.0


def fleet(board: Board, text: str = CONFIG, size: int = FLEET) -> list[SimulatedGateway]:
    return [SimulatedGateway(board, f"r{n}", 1000.0 * (n + 5), text) for n in range(size)]


def ends(gateway: SimulatedGateway, failed: int, succeeded: int = 0, key: str = KEY) -> None:
    """Attempts of the gateway's worker have ended."""
    one = NewOutcomes(failed=failed, succeeded=succeeded, recent=failed + succeeded)
    gateway.say(OutcomeUpdate(outcomes={key: one}))


def obey(gateway: SimulatedGateway) -> None:
    """The worker reports what is watched, as OutcomeReports does."""
    for message in gateway.told:
        if isinstance(message, OutcomeWatch):
            for key in message.since:
                ends(gateway, 0, key=key)


async def pass_time(gateways: list[SimulatedGateway], seconds: float) -> None:
    for _ in range(round(seconds / 0.25)):
        for gateway in gateways:
            obey(gateway)
        await look(*gateways)


def opened(gateway: SimulatedGateway) -> bool:
    return any(one.open_until is not None for one in gateway.news)


async def test_two_failures_of_each_of_six_gateways_open_the_circuit_everywhere() -> None:
    gateways = fleet(Board())
    await pass_time(gateways, 1.0)

    for gateway in gateways:
        ends(gateway, 2)
    await pass_time(gateways, 2.0)

    assert all(opened(gateway) for gateway in gateways)
    last = [gateway.news[-1] for gateway in gateways]
    assert {one.seen_by for one in last} == {FLEET}
    assert all(one.open_until is not None and one.cooldown_s == 5.0 for one in last)
    assert sum(gateway.exchange.opened for gateway in gateways) >= 1


async def test_a_gateway_that_polls_late_opens_the_circuit_too() -> None:
    """Two do not agree yet when it reads, so it needs the evidence of the first."""
    gateways = fleet(Board(), size=2)
    late, first = gateways
    await pass_time(gateways, 1.0)
    ends(late, 6)
    ends(first, 4)
    await pass_time(gateways, 1.0)

    ends(first, 2)
    for _ in range(3):
        await look(first, seconds=0.25)
    late.clock.now += 0.75
    assert (opened(first), opened(late)) == (True, False)
    await look(late)

    assert opened(late)


async def test_a_gateway_whose_own_network_is_broken_opens_no_circuit_elsewhere() -> None:
    gateways = fleet(Board())
    broken, others = gateways[0], gateways[1:]
    await pass_time(gateways, 1.0)

    for turn in range(40):
        ends(broken, 25)
        if turn == 4:
            now_ = broken.clock.now
            broken.say(BreakerUpdate(health={KEY: health(now_, now_ + 9, seen_by=FLEET)}))
        for other in others:
            ends(other, 1 if turn % 10 == 0 else 0, 1)
        await pass_time(gateways, 0.5)

    assert not any(opened(other) for other in others)


async def test_successes_of_gateways_without_failures_count_before_a_circuit_opens() -> None:
    """Two of six have only failures, and the backend serves the others."""
    gateways = fleet(Board())
    await pass_time(gateways, 1.0)

    for _ in range(20):
        for place, gateway in enumerate(gateways):
            if place < 2:
                ends(gateway, 1)
            else:
                ends(gateway, 0, 1)
        await pass_time(gateways, 0.5)

    assert not any(opened(gateway) for gateway in gateways)


async def test_a_circuit_stays_closed_while_a_gateway_does_not_report_its_successes() -> None:
    gateways = fleet(Board())
    silent, others = gateways[0], gateways[1:]
    await pass_time(gateways, 1.0)

    for other in others:
        ends(other, 4)
    for _ in range(8):
        for other in others:
            obey(other)
        await look(*gateways)
    before = [opened(other) for other in others]
    ends(silent, 0)
    await pass_time(gateways, 2.0)

    assert before == [False] * len(others)
    assert all(opened(gateway) for gateway in gateways)


async def test_beside_a_gateway_of_an_older_version_each_goes_by_its_own_failures() -> None:
    """It reports no outcomes, so its successes would be missing."""
    board = Board()
    gateways = fleet(board)
    old = msgspec.msgpack.encode({"health": {}, "busy": {}, "processes": 1})

    for turn in range(16):
        if turn == 4:
            for gateway in gateways:
                ends(gateway, 3)
        board.notices[b"old"] = notice(float(turn), old)
        await pass_time(gateways, 0.25)

    assert all(gateway.exchange.gateways == FLEET + 1 for gateway in gateways)
    assert not any(opened(gateway) for gateway in gateways)


async def test_evidence_of_a_gateway_that_is_gone_does_not_count() -> None:
    gateways = fleet(Board(), size=3)
    await pass_time(gateways, 1.0)
    for gateway in gateways[1:]:
        ends(gateway, 5)
    await pass_time(gateways, 1.0)

    left = gateways[:2]
    await pass_time(left, PEER_TIMEOUT_S + 1.0)
    ends(left[0], 2)
    await pass_time(left, 2.0)

    assert not any(opened(gateway) for gateway in left)


async def test_evidence_older_than_the_window_does_not_count() -> None:
    gateways = fleet(Board(), size=2)
    await pass_time(gateways, 1.0)
    for gateway in gateways:
        ends(gateway, 5)
    await pass_time(gateways, WINDOW_S + 1.0)

    for gateway in gateways:
        ends(gateway, 1)
    await pass_time(gateways, 2.0)

    assert not any(opened(gateway) for gateway in gateways)


async def test_a_circuit_that_a_probe_has_closed_starts_without_evidence() -> None:
    gateways = fleet(Board())
    await pass_time(gateways, 1.0)
    for gateway in gateways:
        ends(gateway, 2)
    await pass_time(gateways, 2.0)
    opened_before = [opened(gateway) for gateway in gateways]

    gateways[0].say(BreakerUpdate(health={KEY: health(gateways[0].clock.now)}))
    await pass_time(gateways, 1.0)
    for gateway in gateways:
        gateway.told.clear()
        ends(gateway, 1)
    await pass_time(gateways, 2.0)

    assert all(opened_before)
    assert not any(opened(gateway) for gateway in gateways)


async def test_a_gateway_that_comes_later_knows_which_circuits_are_open() -> None:
    board = Board()
    gateways = fleet(board)
    await pass_time(gateways, 1.0)
    for gateway in gateways:
        ends(gateway, 2)
    await pass_time(gateways, 2.0)

    late = SimulatedGateway(board, "late", 90.0)
    await pass_time([*gateways, late], 1.0)

    assert opened(late)


async def test_a_backend_without_failures_costs_no_byte_of_a_notice() -> None:
    board = Board()
    gateways = fleet(board, size=2)
    await pass_time(gateways, 1.0)
    quiet = {name: len(body) for name, body in board.notices.items()}

    ends(gateways[0], 1)
    await pass_time(gateways, 1.0)
    suspected = {name: len(body) for name, body in board.notices.items()}
    await pass_time(gateways, WINDOW_S + FORGET_S)

    assert suspected[b"r0"] > quiet[b"r0"]
    assert suspected[b"r1"] == quiet[b"r1"]
    assert {name: len(body) for name, body in board.notices.items()} == quiet


def test_notices_are_bounded_however_many_backends_fail_anywhere() -> None:
    rule = BreakerRule()
    evidence = SharedEvidence(EvidenceRules(lambda _: rule, lambda _: None, lambda _: ()))
    keys = [f"chat: one/m @ 10.0.0.{n}:80" for n in range(2 * MOST_REPORTED)]
    fails: Mapping[str, Reported] = {key: Reported(failed=3, succeeded=0) for key in keys}
    evidence.count({key: NewOutcomes(failed=1, succeeded=0, recent=1) for key in keys}, 0.0)

    for turn in range(5):
        evidence.update({b"a": fails, b"b": fails}, turn * 0.25)

    assert len(evidence.watched) == MOST_WATCHED
    assert len(evidence.report(1.25)) == MOST_REPORTED


class Process:
    """A gateway with one process on a real Redis, whose breaker is the product's."""

    def __init__(self, redis: RedisServer, name: str) -> None:
        served = config(CONFIG.replace("name: chat,", "name: chat, breaker: {cooldown_s: 2},"))
        self.breaker = Breaker(served.models[0].breaker)
        self.reports = OutcomeReports(lambda key: self.breaker if key == KEY else None)
        self.breaker.on_failure = partial(self.reports.on_failure, KEY)
        self.breaker.changed = self._changed
        self.hub = StateHub()
        holders: dict[str, LocalLeases] = {}
        self.breaker.lease = LocalLeases(holders).lease(KEY)
        transport = RedisTransport(Secret(redis.url), name)
        self.sync = GatewaySync(self.hub, transport, LocalLeases(holders), lambda: served)
        self.hub.join(0, self._receive)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            if outcomes := self.reports.changes(now()):
                self.hub.on_message(0, outcomes)

    def probe(self) -> bool:
        """Send a request if the open circuit lets it through; it succeeds."""
        if not self.breaker.is_available(now()):
            return False
        self.breaker.succeed(now(), probe=self.breaker.begin(now()))
        return True

    def _changed(self) -> None:
        self.hub.on_message(0, BreakerUpdate(health={KEY: self.breaker.snapshot()}))

    def _receive(self, message: ToWorker) -> None:
        match message:
            case OutcomeWatch(since=since):
                self.reports.watch(since, now())
            case BreakerUpdate(health=told):
                self.breaker.merge(told[KEY])
            case _:
                pass


@asynccontextmanager
async def processes(redis: RedisServer, count: int) -> AsyncGenerator[list[Process]]:
    """So many gateways that know each other."""
    found = [Process(redis, f"gateway-{number}") for number in range(count)]
    tasks = [asyncio.create_task(work) for one in found for work in (one.run(), one.sync.run())]
    await until(lambda: all(one.sync.gateways == count for one in found))
    try:
        yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110  it comes through Redis
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def redis() -> Generator[RedisServer]:
    with running_redis() as server:
        yield server


async def test_over_a_real_redis_three_gateways_open_a_circuit_on_what_all_have_seen(
    redis: RedisServer,
) -> None:
    async with processes(redis, 3) as gateways:
        for one in gateways:
            one.breaker.succeed(now(), probe=False)
            for _ in range(5):
                one.breaker.fail(now(), probe=False)
        await until(lambda: all(one.breaker.open_until is not None for one in gateways))
        seen_by = {one.breaker.seen_by for one in gateways}
        await until(lambda: any(one.probe() for one in gateways))
        await until(lambda: all(one.breaker.open_until is None for one in gateways))

    assert seen_by == {3}


async def test_over_a_real_redis_the_failures_of_one_gateway_stay_its_own(
    redis: RedisServer,
) -> None:
    async with processes(redis, 3) as (broken, *others):
        for _ in range(12):
            broken.breaker.fail(now(), probe=False)
        for other in others:
            for _ in range(2):
                other.breaker.fail(now(), probe=False)
        await until(lambda: all(other.sync.watched == 1 for other in others))
        await asyncio.sleep(1.5)

        assert broken.breaker.open_until is not None
        assert broken.breaker.seen_by == 1
        assert [other.breaker.open_until for other in others] == [None, None]
