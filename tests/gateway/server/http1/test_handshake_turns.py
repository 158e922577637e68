"""Handshakes of one address do not delay those of another one, nor anything else."""

import asyncio
from itertools import pairwise

import pytest

from strowger_gateway.gateway.server.http1.handshake_turns import EACH_TURN, HandshakeTurns

pytestmark = pytest.mark.anyio


class Handshake:
    """Notes its name when its turn comes."""

    def __init__(self, name: str, order: list[str]) -> None:
        self._name = name
        self._order = order

    def step(self) -> None:
        self._order.append(self._name)
        if self._name == "broken":
            raise RuntimeError("a bug")


async def test_addresses_take_turns_and_the_event_loop_goes_on_in_between() -> None:
    turns, order, between = HandshakeTurns(), list[str](), list[int]()
    for n in range(20):
        turns.step_soon(Handshake(f"many {n}", order), "10.0.0.1")
    turns.step_soon(Handshake("one", order), "10.0.0.2")
    while len(order) < 21:
        await asyncio.sleep(0)
        between.append(len(order))

    assert order[:3] == ["many 0", "one", "many 1"]
    assert order[3:] == [f"many {n}" for n in range(2, 20)]
    assert all(after - before <= EACH_TURN for before, after in pairwise(between))


async def test_a_bug_in_one_handshake_stops_no_other() -> None:
    turns, order, faults = HandshakeTurns(), list[str](), list[object]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context))

    for name in ("broken", "good", "better"):
        turns.step_soon(Handshake(name, order), "10.0.0.1")
    for _ in range(10):
        await asyncio.sleep(0)

    assert order == ["broken", "good", "better"]
    assert len(faults) == 1
