"""Messages between gateways, on values: different clocks, lost peers, shared backends."""

import asyncio

import pytest

from strowger_gateway.gateway.coordination.breaker_messages import BreakerUpdate, LoadUpdate
from strowger_gateway.gateway.coordination.gateway_messages import Shared
from strowger_gateway.gateway.coordination.gateway_sync import FORGET_S, PEER_TIMEOUT_S
from strowger_gateway.gateway.coordination.probe_lease import UNUSED_S
from strowger_gateway.gateway.coordination.state_hub import GATHER_S
from tests.gateway.coordination.board import (
    CONFIG,
    KEY,
    NEVER,
    Board,
    SimulatedGateway,
    config,
    health,
    look,
    pair,
)

pytestmark = pytest.mark.anyio


async def test_times_arrive_on_the_clock_of_the_receiver() -> None:
    one, other = pair(Board())
    await look(one, other)

    one.say(BreakerUpdate(health={KEY: health(5000.0, rest_until=5020.0, spare_until=5002.0)}))
    await look(one, other)

    assert other.news == [health(6000.0, rest_until=6020.0, spare_until=6002.0)]
    assert one.news == []


async def test_received_state_is_not_sent_again_or_back() -> None:
    one, other = pair(Board())
    await look(one, other)
    one.say(BreakerUpdate(health={KEY: health(5000.0, spare_until=5002.0)}))
    await look(one, other)

    heard = other.news[0]
    other.say(
        BreakerUpdate(
            health={KEY: health(heard.at, rest_until=6030.0, spare_until=heard.deprioritised_until)}
        )
    )
    await look(other, one)

    assert one.news == [health(NEVER, None, rest_until=5030.0)]
    assert len(other.news) == 1


async def test_one_gateways_word_opens_no_circuit_elsewhere_and_two_agreeing_ones_do() -> None:
    board = Board()
    one, other = pair(board)
    third = SimulatedGateway(board, "c", 7000.0)
    await look(one, other, third)

    one.say(BreakerUpdate(health={KEY: health(5000.25, 5010.0, seen_by=5)}))
    other.say(BreakerUpdate(health={KEY: health(6000.25, 6009.0, seen_by=1)}))
    await look(one, other, third)
    alone = third.news[-1]
    other.say(BreakerUpdate(health={KEY: health(6000.5, 6008.0, seen_by=2)}))
    await look(one, other, third)

    assert alone.open_until is None
    assert third.news[-1] == health(7000.5, 7008.0, seen_by=2)


async def test_what_has_closed_since_is_not_news_for_a_gateway_that_comes_later() -> None:
    board = Board()
    one, other = pair(board)
    await look(one, other)
    for gateway, now in ((one, 5000.25), (other, 6000.25)):
        gateway.say(BreakerUpdate(health={KEY: health(now, now + 9.0, seen_by=2)}))
    await look(one, other)
    one.say(BreakerUpdate(health={KEY: health(one.clock.now)}))
    for _ in range(round((FORGET_S + 1) / 0.25)):
        await look(one, other)

    late = SimulatedGateway(board, "c", 7000.0)
    for _ in range(4):
        await look(one, other, late)

    assert late.news == []


async def test_no_gateway_sets_a_time_beyond_what_the_rule_here_allows() -> None:
    one, other = pair(Board())
    await look(one, other)
    other.say(BreakerUpdate(health={KEY: health(6000.0, 6009.0, seen_by=1)}))

    one.say(BreakerUpdate(health={KEY: health(9e9, 9e9, rest_until=9e9, spare_until=9e9)}))
    await look(one, other)

    (heard,) = other.news
    now = 6000.25
    assert (heard.at, heard.open_until) == (now, now + 10.0)
    assert (heard.retry_after_until, heard.deprioritised_until) == (now + 300.0, now + 60.0)


async def test_a_new_version_of_the_issued_keys_is_noticed_with_the_next_round() -> None:
    one, other = pair(Board())
    await look(one, other)
    await look(one, other)
    before = list(other.keys.seen)

    one.keys.version = 2
    await look(one, other)
    await look(one, other)

    assert before == [1]
    assert other.keys.seen == [1, 2]


async def test_loads_are_the_sum_of_the_living() -> None:
    one, other = pair(Board())
    await look(one, other)
    await look(one, other)

    other.say(LoadUpdate(attempts={KEY: 3}, in_flight=3, buffered=9))
    await asyncio.sleep(2 * GATHER_S)
    await look(other, one)
    await asyncio.sleep(2 * GATHER_S)
    before = one.told[-1]
    await look(one, seconds=PEER_TIMEOUT_S + 1)
    await look(one)
    await asyncio.sleep(2 * GATHER_S)

    assert before == LoadUpdate(attempts={KEY: 3}, in_flight=0, buffered=0)
    assert one.told[-1] == LoadUpdate(attempts={KEY: 0}, in_flight=0, buffered=0, processes=0)


async def test_a_notice_that_does_not_change_is_ignored_and_removed() -> None:
    board = Board()
    dead, one = pair(board)
    dead.say(BreakerUpdate(health={KEY: health(5000.0, 5010.0)}))
    await look(dead)

    await look(one)
    await look(one, seconds=FORGET_S + 1)
    await look(one)

    assert one.news == []
    assert list(board.notices) == [b"b"]


@pytest.mark.parametrize(
    "other",
    [
        CONFIG.replace("sk-1", "sk-2"),
        CONFIG.replace("one.test", "two.test"),
        CONFIG.replace("name: chat", "name: talk"),
    ],
    ids=["account", "address", "model"],
)
async def test_gateways_with_other_backends_on_one_redis_do_not_mix(other: str) -> None:
    one, stranger = pair(Board(), other)
    await look(one, stranger)

    one.say(BreakerUpdate(health={KEY: health(5000.0, 5010.0)}))
    await look(one, stranger)
    await look(one, stranger)

    assert [news for news in stranger.told if isinstance(news, BreakerUpdate)] == []


def test_engines_and_backends_on_another_machines_loopback_are_not_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = CONFIG.replace("https://one.test/v1", "http://127.0.0.1:11434/v1")
    engine = """
providers: [{name: one, adapter: local, engine: {models: [{name: m, path: "bundled:tiny"}]}}]
models: [{name: chat, backends: [{provider: one, model: m}]}]
"""

    here = Shared(config(text)).place(KEY)
    again = Shared(config(text)).place(KEY)
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    there = Shared(config(text)).place(KEY)

    assert here == again != there
    assert Shared(config(engine)).place(KEY) is None


@pytest.mark.parametrize("body", [b"?", b"12345678?", b"12345678\xc1"])
async def test_an_unreadable_message_is_logged_once_and_has_no_effect(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    board = Board()
    one, other = pair(board)

    for turn in range(6):
        board.notices[b"x"] = bytes([turn]) + body[1:]
        await look(one)
    told = [line for line in caplog.messages if "cannot decode a gateway's notice" in line]
    one.say(BreakerUpdate(health={KEY: health(one.clock.now, one.clock.now + 9)}))
    await look(one, other)
    await look(one, other)

    assert len(other.news) == 1
    assert len(told) == 1


async def test_the_one_probe_of_an_open_breaker_is_passed_on_while_unused() -> None:
    board = Board()
    one, other = pair(board)
    await look(one, other)
    one.say(BreakerUpdate(health={KEY: health(5000.0, 5005.0)}))
    other.say(BreakerUpdate(health={KEY: health(6000.0, 6005.0)}))
    await look(one, other)
    barred = (one.probe.available(), other.probe.available(), dict(board.leases))

    held: list[tuple[bool, bool]] = []
    for _ in range(round((5 + 4 * UNUSED_S) / 0.25)):
        await look(one, other)
        held.append((one.probe.available(), other.probe.available()))

    assert barred == (False, False, {})
    assert (True, True) not in held
    assert (True, False) in held
    assert (False, True) in held


async def test_a_probe_under_way_keeps_the_lease_and_its_news_give_it_back() -> None:
    board = Board()
    one, other = pair(board)
    await look(one, other)
    one.say(BreakerUpdate(health={KEY: health(5000.0, 5000.5)}))
    other.say(BreakerUpdate(health={KEY: health(6000.0, 6000.5)}))
    for _ in range(4):
        await look(one, other)
    taken = one.probe.acquire()
    for _ in range(40):
        await look(one, other)
    during = (list(board.leases.values()), other.probe.available())
    one.say(BreakerUpdate(health={KEY: health(one.clock.now)}))
    one.probe.release()
    await look(one, other)
    await look(one, other)

    assert taken
    assert during == (["a"], False)
    assert board.leases == {}
    assert (one.probe.available(), other.probe.available()) == (True, True)


async def test_each_backend_of_a_provider_has_a_probe_of_its_own() -> None:
    board = Board()
    text = CONFIG.replace("model: m}", "model: m}, {provider: one, model: n}")
    one, other = (
        SimulatedGateway(board, "a", 5000.0, text),
        SimulatedGateway(board, "b", 6000.0, text),
    )
    await look(one, other)
    one.say(
        BreakerUpdate(health={KEY: health(5000.0, 5000.5), "chat: one/n": health(5000.0, 5000.5)})
    )
    for _ in range(4):
        await look(one, other)
    assert one.probe.acquire()

    both = len(board.leases)
    one.say(BreakerUpdate(health={"chat: one/n": health(one.clock.now)}))
    await look(one, other)
    await look(one, other)

    assert both == 2
    assert list(board.leases.values()) == ["a"]


async def test_while_all_is_well_no_gateway_requests_leases() -> None:
    board = Board()
    one, other = pair(board)

    for _ in range(5):
        await look(one, other)

    assert board.asked == 0


def processes_told(gateway: SimulatedGateway) -> list[int]:
    return [one.processes for one in gateway.told if isinstance(one, LoadUpdate)]


async def test_every_worker_knows_how_many_processes_serve_on_all_gateways() -> None:
    board = Board()
    one, other = pair(board)
    other.hub.join(1, other.told.append)
    other.hub.join(2, other.told.append)
    for _ in range(3):
        await look(one, other)
        await asyncio.sleep(2 * GATHER_S)

    assert processes_told(one)[-1] == 3
    assert processes_told(other)[-1] == 2 + 1


async def test_gateways_that_are_silent_are_not_counted_and_those_behind_an_outage_are() -> None:
    """Without Redis the other gateways go on, and so does their part of the budgets."""
    board = Board()
    one, other = pair(board)
    for _ in range(3):
        await look(one, other)
    one.exchange.on_outage()
    await asyncio.sleep(2 * GATHER_S)
    away = processes_told(one)[-1]
    one.exchange.unavailable = False
    for _ in range(3):
        await look(one, other)
    await look(one)
    one.clock.now += PEER_TIMEOUT_S + 1
    await look(one)
    await asyncio.sleep(2 * GATHER_S)

    assert away == 1
    assert processes_told(one)[-1] == 0


async def test_gateways_with_another_configuration_are_counted() -> None:
    one, other = pair(Board(), CONFIG + "logging: {level: debug}")
    same, also = pair(Board(), CONFIG.replace("sk-1", "sk-2"))
    for _ in range(3):
        await look(one, other)
        await look(same, also)

    assert [each.exchange.differing for each in (one, other, same, also)] == [1, 1, 0, 0]
