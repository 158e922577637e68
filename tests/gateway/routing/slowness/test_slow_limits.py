"""`breaker.slow_s` and `slow_rate`: a limit in seconds, which opens the circuit."""

from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.slowness.slow_calls import SlowCalls
from tests.gateway.routing.slowness.model_on_a_clock import Script, World, slow_between, steady

RULE = BreakerRule(slow_s=1.0, min_requests=5)


def test_attempts_beyond_the_limit_open_the_circuit_and_one_within_it_closes_it() -> None:
    world = World({"a": slow_between(0, 20), "b": steady(0.1)}, rule=RULE)

    world.run(10)
    state = world.backends["a"].breaker.state(world.now)
    world.run(60)

    assert state != "closed"
    assert world.share("a", 5, 20) <= 0.2
    assert world.backends["a"].breaker.state(world.now) == "closed"
    assert world.share("a", 45, 60) == 1.0


def test_without_a_limit_a_backend_that_was_always_slow_keeps_its_requests() -> None:
    world = World({"a": steady(2.0), "b": steady(0.1)})

    world.run(30)

    assert world.share("a", 0, 30) == 1.0


def test_a_share_of_slow_attempts_below_the_rate_opens_nothing() -> None:
    def sometimes(at: float, key: str) -> float:
        return 2.0 if round(at / 0.2) % 5 == 0 else 0.1

    world = World({"a": Script(seconds=sometimes), "b": steady(0.1)}, rule=RULE)
    world.run(60, keys=("k1",))

    assert world.backends["a"].breaker.state(world.now) == "closed"


def test_attempts_that_waited_in_the_gateway_do_not_count_against_the_limit() -> None:
    waiting = Script(seconds=lambda at, key: 2.0, waits_s=0.5)
    world = World({"a": waiting, "b": steady(0.1)}, rule=RULE)

    world.run(30)

    assert world.backends["a"].breaker.state(world.now) == "closed"


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0.0, 5.0)), max_size=50), st.floats(0.1, 1))
def test_the_evidence_never_exceeds_the_number_of_slow_attempts(
    steps: list[tuple[int, float]], rate: float
) -> None:
    calls, ended, at = SlowCalls(), 0, 0.0
    for number, (others, pause) in enumerate(steps, start=1):
        ended += others + 1
        at += pause
        assert 1.0 <= calls.add(ended, at, rate, 30.0) <= number
