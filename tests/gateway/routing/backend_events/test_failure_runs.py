"""Whether a backend works: nothing but a success says that it does again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.coordination.shared_circuits import bounded
from strowger_gateway.gateway.routing.resilience.breaker_per_model import Breakers
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot, later
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.failure_run import FAILING

RULE = BreakerRule()


def failed(times: int, breaker: Breaker | None = None, at: float = 100.0) -> Breaker:
    breaker = breaker or Breaker(RULE)
    for _ in range(times):
        breaker.fail(at, probe=False)
    return breaker


class Processes:
    """Workers that share the breaker of one backend. Each sends what has changed to the others."""

    def __init__(self, many: int) -> None:
        self.breakers = [Breaker(RULE) for _ in range(many)]
        self.sent: list[BreakerSnapshot] = []
        for breaker in self.breakers:
            breaker.changed = lambda breaker=breaker: self._send(breaker)

    def _send(self, sender: Breaker) -> None:
        self.sent.append(sender.snapshot())
        for other in self.breakers:
            if other is not sender:
                other.merge(sender.snapshot())

    def up(self, at: float) -> list[bool]:
        return [one.is_up(at) for one in self.breakers]


def test_the_third_failure_in_a_row_takes_it_down_although_evidence_expires() -> None:
    breaker = Breaker(RULE)
    states: list[bool] = []
    for minute in range(4):
        breaker.fail(100.0 + 60 * minute, probe=False)
        states.append(breaker.is_up(100.0 + 60 * minute))

    assert states == [True, True, False, False]
    assert breaker.state(280.0) == "closed"
    assert breaker.is_available(280.0), "requests still go there: one of them may succeed"
    assert breaker.down_since == 100.0


@pytest.mark.parametrize("failures", [3, 12, 40])
def test_no_traffic_keeps_it_down_and_one_success_takes_it_up(failures: int) -> None:
    breaker = failed(failures)
    for at in (101.0, 1000.0, 1e6):
        assert not breaker.is_up(at)

    probe = breaker.begin(1e6)
    breaker.succeed(1e6, probe=probe)

    assert breaker.is_up(1e6)
    assert breaker.phase(1e6) == "up"


def test_content_of_a_probe_takes_it_up_before_the_answer_ends() -> None:
    breaker = failed(12)
    assert breaker.begin(200.0)

    breaker.on_probe_content(200.0)

    assert breaker.is_up(200.0)


def test_a_probe_that_is_limited_closes_the_circuit_and_proves_nothing_more() -> None:
    breaker = failed(12)
    breaker.cool_down(200.0, 5.0, probe=breaker.begin(200.0))

    assert breaker.state(200.0) == "closed"
    assert breaker.phase(200.0) == "failing"
    assert not breaker.is_up(206.0)


def test_workers_with_a_request_per_minute_between_them_count_together() -> None:
    workers = Processes(4)
    for place in range(3):
        workers.breakers[place].fail(100.0 + 60 * place, probe=False)
    down = workers.up(300.0)
    workers.breakers[3].succeed(400.0, probe=False)

    assert down == [False] * 4
    assert workers.up(400.0) == [True] * 4


def test_a_busy_backend_that_fails_now_and_then_costs_few_messages() -> None:
    workers = Processes(2)
    one = workers.breakers[0]
    for place in range(1000):
        at = 100.0 + place / 100
        one.fail(at, probe=False)
        one.succeed(at, probe=False)

    assert len(workers.sent) <= 25, "10 s, one failure and one success per second"


def test_a_worker_that_saw_three_failures_hears_of_another_ones_success() -> None:
    workers = Processes(2)
    failed(3, workers.breakers[0])
    fast_path = workers.breakers[1].unsettled

    workers.breakers[1].succeed(101.0, probe=False)

    assert fast_path, "so that the success is not only counted"
    assert workers.up(101.0) == [True, True]


def test_a_worker_that_joins_knows_that_it_is_down() -> None:
    one = failed(3)
    other = failed(1, at=50.0)
    late = Breaker(RULE)

    late.merge(later(other.snapshot(), one.snapshot()))

    assert not late.is_up(200.0)
    assert late.down_since == 100.0


def test_failures_at_another_gateway_say_nothing_about_this_ones_network() -> None:
    here = Breaker(RULE)
    here.succeed(90.0, probe=False)

    here.merge(bounded(failed(3).snapshot(), RULE, 100.0))

    assert here.is_up(100.0)


def test_a_circuit_that_another_gateway_closes_takes_it_up_here() -> None:
    here = failed(12)
    there = failed(12)
    there.succeed(200.0, probe=there.begin(200.0))

    here.merge(bounded(there.snapshot(), RULE, 200.0))

    assert here.is_up(200.0)


def test_a_restarted_engine_is_not_tried_yet() -> None:
    breaker = failed(12)
    tried = breaker.is_tried

    breaker.reset(200.0)

    assert tried
    assert not breaker.is_tried
    assert breaker.is_up(200.0)


def test_names_of_a_wildcard_fail_together_and_one_of_them_is_enough() -> None:
    whole = Breaker(RULE)
    names = Breakers(RULE, whole)
    for name in "abc":
        names.of(name).succeed(100.0, probe=False)
    assert not any(breaker.unsettled for _, breaker in names)

    for name in "aab":
        names.of(name).fail(101.0, probe=False)
    down, flagged = whole.is_up(102.0), names.of("c").unsettled
    names.of("c").succeed(103.0, probe=False)

    assert not down
    assert flagged, "the fast path must not hide its success"
    assert whole.is_up(103.0)


def test_a_health_check_by_path_vouches_once_until_a_request_succeeds() -> None:
    breaker = failed(12)
    breaker.vouch(110.0, 110.0)
    first = breaker.is_up(110.0)
    failed(12, breaker, 120.0)
    breaker.vouch(130.0, 130.0)
    second = breaker.is_up(130.0)
    breaker.succeed(140.0, probe=breaker.begin(140.0))
    failed(12, breaker, 150.0)
    breaker.vouch(160.0, 160.0)

    assert (first, second, breaker.is_up(160.0)) == (True, False, True)


def test_a_health_check_that_was_sent_before_the_last_failure_proves_nothing() -> None:
    breaker = failed(12, at=100.0)

    breaker.vouch(101.0, 99.0)

    assert not breaker.is_up(101.0)


def test_no_health_check_by_path_ends_a_refused_account() -> None:
    breaker = Breaker(RULE)
    breaker.refuse(100.0, "r", certain=True, retry_after=None, probe=False)

    breaker.vouch(200.0, 200.0)

    assert breaker.phase(200.0) == "refused"


OUTCOMES = st.lists(
    st.tuples(st.sampled_from("..xxxrd"), st.floats(0.0, 90.0)), min_size=1, max_size=60
)


@given(OUTCOMES)
def test_it_is_down_exactly_while_the_last_attempts_prove_it(
    outcomes: list[tuple[str, float]],
) -> None:
    """Successes take the fast path of `Attempt.succeed` whenever that may be taken."""
    breaker, now, row, refused = Breaker(RULE), 100.0, 0, False
    for place, (what, later_s) in enumerate(outcomes):
        now += later_s
        probe = breaker.begin(now)
        match what:
            case ".":
                if probe or breaker.unsettled:
                    breaker.succeed(now, probe=probe)
                else:
                    breaker.outcomes.add(now)
                row, refused = 0, False
            case "x":
                breaker.fail(now, probe=probe)
                row += 1
            case "r":
                breaker.refuse(now, str(place), certain=True, retry_after=None, probe=probe)
                row, refused = row + 1, True
            case _:
                breaker.deprioritise(now, 0.5, probe=probe)
                refused = refused and not probe
        expected = breaker.open_until is None and row < FAILING and not refused
        if not (refused or what == "d"):
            assert breaker.is_up(now) == expected
        assert (breaker.is_up(now + 1e6)) == (breaker.phase(now + 1e6) == "up")
        assert not breaker.is_up(now + 1e6) or row < FAILING
