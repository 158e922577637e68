"""Sums of what other gateways have in flight: right after any change, and at its price."""

import sys
from collections import Counter
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.coordination.breaker_messages import LoadUpdate
from strowger_gateway.gateway.coordination.peer_loads import PeerLoads
from tests.examples import examples
from tests.gateway.coordination.board import Board, SimulatedGateway, look

PEERS = (b"a", b"b", b"c")
loads = st.dictionaries(st.sampled_from("wxyz"), st.integers(1, 9))
steps = st.lists(st.tuples(st.sampled_from(PEERS), st.none() | loads), max_size=20)


@given(steps)
@settings(max_examples=examples(80), deadline=None)
def test_the_changes_add_up_to_the_sum_of_all_gateways(
    taken: list[tuple[bytes, dict[str, int] | None]],
) -> None:
    kept = PeerLoads(lambda key: None if key == "z" else "here")
    known, told = dict[bytes, dict[str, int]](), Counter[str]()
    for peer, attempts in taken:
        if attempts is not None:
            known[peer] = attempts
            kept.put(peer, {"here": attempts, "elsewhere": {"w": 5}})
        else:
            known.pop(peer, None)
            kept.remove(peer)
        changes = kept.changes()
        for key, count in changes.items():
            assert key != "z"
            assert told[key] != count
            told[key] = count
        whole = sum((Counter(one) for one in known.values()), Counter[str]())
        whole.pop("z", None)
        assert +told == whole


async def calls_of_a_poll(gateways: int, backends: int) -> int:
    """The calls that one gateway makes to read one changed load among those of all others."""
    board = Board()
    found = [SimulatedGateway(board, f"r{n}", 1000.0 * (n + 5)) for n in range(gateways)]
    busy = {f"chat: one/m @ 10.0.0.{n}:80": n + 1 for n in range(backends)}
    for one in found:
        one.exchange.on_message(LoadUpdate(attempts=busy, in_flight=backends, buffered=0))
    for _ in range(3):
        await look(*found)
    changed = {"chat: one/m @ 10.0.0.0:80": 7}
    found[1].exchange.on_message(LoadUpdate(attempts=changed, in_flight=7, buffered=0))
    await look(*found[1:])
    calls = 0

    def count(frame: FrameType, event: str, value: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        await look(found[0])
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.anyio
async def test_a_poll_costs_the_same_for_a_gateway_however_many_there_are() -> None:
    few, some, many = [await calls_of_a_poll(count, 20) for count in (4, 14, 24)]

    assert abs((many - some) - (some - few)) < 20, "linear in the gateways"
    assert some - few < 10 * 30, "and little for each that has not changed"


@pytest.mark.anyio
async def test_a_poll_costs_the_same_for_a_backend_however_many_gateways_use_it() -> None:
    def each(few: int, many: int) -> float:
        return (many - few) / 40

    alone = each(await calls_of_a_poll(3, 10), await calls_of_a_poll(3, 50))
    fleet = each(await calls_of_a_poll(13, 10), await calls_of_a_poll(13, 50))

    assert fleet < alone + 1.0
