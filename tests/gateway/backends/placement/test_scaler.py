"""How many replicas there should be: within the limits, and never to and fro."""

from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.backends.placement.scaler import EngineLoad, Scaler
from strowger_gateway.gateway.backends.placement.settings import Replicas
from tests.examples import examples

LIMITS = st.tuples(st.integers(1, 8), st.integers(0, 8)).map(lambda one: (one[0], sum(one)))


def replicas(limits: tuple[int, int]) -> Replicas:
    return Replicas(
        min=limits[0],
        max=limits[1],
        requests_per_replica=16,
        grow_after_s=10,
        shrink_after_s=60,
    )


def spread(requests: int, count: int) -> list[EngineLoad]:
    return [
        EngineLoad(running=requests // count + (one < requests % count), waiting=0)
        for one in range(count)
    ]


@settings(max_examples=examples(25))
@given(limits=LIMITS, requests=st.integers(0, 300))
def test_a_constant_load_leads_to_one_number_and_stays_there(
    limits: tuple[int, int], requests: int
) -> None:
    scaler, count = Scaler(replicas(limits)), limits[0]
    numbers: list[int] = []

    for at in range(600):
        count = scaler.wanted(float(at), count, spread(requests, count))
        numbers.append(count)

    assert all(limits[0] <= one <= limits[1] for one in numbers)
    assert numbers == sorted(numbers)
    assert numbers[-1] == min(max(-(-requests // 16), limits[0]), limits[1])


@settings(max_examples=examples(50))
@given(limits=LIMITS, loads=st.lists(st.integers(0, 300), min_size=1, max_size=200))
def test_no_load_leads_beyond_the_limits_or_to_two_changes_in_short_time(
    limits: tuple[int, int], loads: list[int]
) -> None:
    scaler, count, shrunk_at = Scaler(replicas(limits)), limits[1], -60.0

    for at, requests in enumerate(loads):
        wanted = scaler.wanted(float(at), count, spread(requests, count))
        assert limits[0] <= wanted <= limits[1]
        if wanted < count:
            assert wanted == count - 1
            assert at - shrunk_at >= 60
            shrunk_at = at
        count = wanted


def test_queues_are_a_reason_to_grow_below_the_wanted_load() -> None:
    scaler = Scaler(replicas((1, 4)))

    numbers = [
        scaler.wanted(float(at), 2, [EngineLoad(running=2, waiting=1)] * 2) for at in range(11)
    ]

    assert numbers == [2] * 10 + [3]


def test_a_short_burst_adds_nothing() -> None:
    scaler = Scaler(replicas((1, 4)))

    numbers = {
        scaler.wanted(float(at), 1, [EngineLoad(running=100 if at % 10 else 0, waiting=0)])
        for at in range(100)
    }

    assert numbers == {1}


def test_nothing_is_removed_while_an_engine_does_not_answer() -> None:
    scaler = Scaler(replicas((1, 4)))

    numbers = {scaler.wanted(float(at), 3, [], whole=False) for at in range(500)}

    assert numbers == {3}
