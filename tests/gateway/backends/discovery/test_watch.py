"""A watch keeps what is known while its source fails, and reports each change once."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.backends.discovery.source import HostPort, LookUp, LookUpFailed
from strowger_gateway.gateway.backends.discovery.watch import AddressChange, Watch

pytestmark = pytest.mark.anyio


class Scripted:
    """A source that answers with the next of its answers, and repeats the last one."""

    name = "scripted"

    def __init__(self, *answers: LookUp | str, lasting: bool = False) -> None:
        self.answers = list(answers)
        self.lasting = lasting

    async def look_up(self) -> LookUp:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, str):
            raise LookUpFailed(answer)
        return answer


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def hosts(*last: int, valid_s: float | None = None) -> LookUp:
    endpoints = tuple(HostPort(host=f"10.0.0.{one}", port=80) for one in last)
    return LookUp(endpoints=endpoints, valid_s=valid_s)


def numbers(endpoints: Sequence[HostPort]) -> list[int]:
    return [int(one.host.rpartition(".")[2]) for one in endpoints]


def watch(source: Scripted, clock: Clock, **more: float) -> tuple[Watch, list[AddressChange]]:
    made = Watch(source, every_s=5.0, keep_s=more.get("keep_s", 60.0), clock=clock)
    changes: list[AddressChange] = []
    made.subscribe(changes.append)
    return made, changes


async def test_listeners_learn_what_came_and_what_left() -> None:
    made, changes = watch(Scripted(hosts(1, 2), hosts(2, 1), hosts(2, 3)), Clock())

    for _ in range(3):
        await made.look_up()

    assert [(numbers(one.added), numbers(one.removed)) for one in changes] == [
        ([1, 2], []),
        ([3], [1]),
    ]
    assert numbers(made.endpoints) == [2, 3]


async def test_a_source_that_fails_keeps_the_last_endpoints_for_a_bounded_time() -> None:
    clock = Clock()
    made, changes = watch(Scripted(hosts(1), "SERVFAIL"), clock)
    await made.look_up()

    clock.at += 59
    await made.look_up()

    assert numbers(made.endpoints) == [1]
    assert (made.status.problem, made.status.failing_s) == ("SERVFAIL", 59)

    clock.at += 2
    await made.look_up()

    assert made.endpoints == ()
    assert [numbers(one.removed) for one in changes] == [[], [1]]


async def test_a_lasting_source_keeps_its_endpoints_however_long_it_fails() -> None:
    clock = Clock()
    made, _ = watch(Scripted(hosts(1), "broken", lasting=True), clock)
    await made.look_up()

    clock.at += 1_000_000
    await made.look_up()

    assert numbers(made.endpoints) == [1]


async def test_that_nothing_is_there_must_be_said_for_a_while_to_be_believed() -> None:
    clock = Clock()
    made, _ = watch(Scripted(hosts(1), hosts()), clock)
    await made.look_up()

    clock.at += 29
    await made.look_up()

    assert numbers(made.endpoints) == [1]
    assert made.status.problem == "it has no addresses"

    clock.at += 2
    await made.look_up()

    assert made.endpoints == ()
    assert made.status.problem == ""


@pytest.mark.parametrize(("valid_s", "pause"), [(None, 5.0), (300.0, 5.0), (2.0, 2.0), (0.0, 1.0)])
async def test_the_next_look_up_is_when_the_answer_ends_within_bounds(
    valid_s: float | None, pause: float
) -> None:
    made, _ = watch(Scripted(hosts(1, valid_s=valid_s)), Clock())

    assert await made.look_up() == pause


@given(st.lists(st.sets(st.integers(1, 200), min_size=1, max_size=120), min_size=1, max_size=5))
async def test_those_in_effect_stay_when_there_are_too_many(found: list[set[int]]) -> None:
    made, _ = watch(Scripted(*(hosts(*one) for one in found)), Clock())

    before: set[int] = set()
    for one in found:
        await made.look_up()
        after = set(numbers(made.endpoints))
        assert len(after) == min(64, len(one))
        assert after <= one
        assert len(before & one & after) == min(64, len(before & one))
        before = after


async def test_a_listener_that_has_ended_its_subscription_is_not_called() -> None:
    made, _ = watch(Scripted(hosts(1), hosts(2)), Clock())
    later: list[AddressChange] = []
    end = made.subscribe(later.append)
    await made.look_up()

    end()
    await made.look_up()

    assert len(later) == 1
