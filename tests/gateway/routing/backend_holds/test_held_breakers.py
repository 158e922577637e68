"""A hold takes a backend out of every choice, and changes nothing of what is known of it."""

from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.routing.resilience.breaker_per_model import Breakers
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker

HOLD = BackendHold(name="p", state="draining", since=1.0)
STEPS = st.lists(
    st.sampled_from(["succeed", "fail", "limited", "busy", "refused", "wait", "hold", "release"]),
    max_size=60,
)


def step(breaker: Breaker, name: str, at: float) -> None:
    match name:
        case "succeed":
            breaker.succeed(at, probe=False)
        case "fail":
            breaker.fail(at, probe=False, draw=0.5)
        case "limited":
            breaker.cool_down(at, 5.0, probe=False)
        case "busy":
            breaker.deprioritise(at, 0.5, probe=False)
        case "refused":
            breaker.refuse(at, str(at), certain=True, retry_after=None, probe=False, draw=0.5)
        case _:
            pass


@given(STEPS)
def test_what_happens_during_a_hold_is_known_after_it_and_no_request_is_sent_in_it(
    steps: list[str],
) -> None:
    held, free = Breaker(BreakerRule()), Breaker(BreakerRule())
    at = 0.0
    for name in steps:
        at += 10.0 if name == "wait" else 0.1
        for one in (held, free):
            step(one, name, at)
        if name in ("hold", "release"):
            held.put_on_hold(HOLD if name == "hold" else None)
        if held.hold is not None:
            assert not held.is_up(at)
            assert not held.is_available(at)
            assert not held.is_preferred(at)
            assert held.available_in(at) == held.last_resort_in(at) == float("inf")
            assert held.impaired_until > at
    held.put_on_hold(None)

    assert held.snapshot() == free.snapshot()
    assert held.impaired_until == free.impaired_until
    assert held.is_available(at) == free.is_available(at)


def test_names_of_a_wildcard_are_held_with_it_also_those_that_come_later() -> None:
    whole = Breaker(BreakerRule())
    names = Breakers(BreakerRule(), whole)
    early = names.of("early")
    whole.put_on_hold(HOLD)
    names.put_on_hold(HOLD)

    assert not early.is_available(0.0)
    assert not names.of("late").is_available(0.0)

    whole.put_on_hold(None)
    names.put_on_hold(None)

    assert early.is_available(0.0)
    assert names.of("late").is_available(0.0)
