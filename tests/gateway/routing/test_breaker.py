"""When a backend may be asked, told by the clock alone."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.config.model import Breaker as BreakerRule
from gateway.routing.breaker import Breaker, Health

RULE = BreakerRule(failure_rate=0.5, min_requests=4, window_s=10, cooldown_s=15, max_cooldown_s=40)


def broken(at: float = 100.0) -> Breaker:
    breaker = Breaker(RULE)
    for _ in range(4):
        breaker.fail(at, probe=False)
    return breaker


def test_too_few_requests_never_open_it() -> None:
    breaker = Breaker(RULE)
    for _ in range(3):
        breaker.fail(100, probe=False)

    assert breaker.state(100) == "closed"
    assert breaker.allows(100)


def test_the_failure_rate_opens_it() -> None:
    breaker = Breaker(RULE)
    for _ in range(2):
        breaker.succeed(100, probe=False)
        breaker.fail(100, probe=False)

    assert breaker.state(100) == "open"
    assert not breaker.allows(114.9)


def test_failures_outside_the_window_are_forgotten() -> None:
    breaker = Breaker(RULE)
    for at in (100, 100, 100, 111):
        breaker.fail(at, probe=False)

    assert breaker.state(111) == "closed"


def test_after_the_cool_down_one_probe_goes_through_and_no_second() -> None:
    breaker = broken()

    assert breaker.allows(115)
    assert breaker.begin(115)
    assert not breaker.allows(115)
    assert not breaker.begin(115)


def test_a_probe_that_succeeds_closes_it_with_a_clean_slate() -> None:
    breaker = broken()
    probe = breaker.begin(115)
    breaker.succeed(115, probe=probe)

    breaker.fail(116, probe=False)

    assert breaker.state(116) == "closed"


def test_a_clean_slate_has_neither_old_failures_nor_a_longer_cool_down() -> None:
    breaker = Breaker(BreakerRule(failure_rate=0.5, min_requests=4, window_s=999, cooldown_s=15))
    for _ in range(4):
        breaker.fail(100, probe=False)
    breaker.fail(115, probe=breaker.begin(115))
    breaker.succeed(145, probe=breaker.begin(145))

    for _ in range(2):
        breaker.fail(146, probe=False)
    before = breaker.state(146)
    breaker.fail(146, probe=False)

    assert (before, breaker.state(146)) == ("closed", "open")
    assert breaker.available_in(146) == 15


def test_a_probe_that_fails_doubles_the_cool_down_up_to_its_maximum() -> None:
    breaker = broken()

    now, waits = 115.0, list[float]()
    for _ in range(3):
        probe = breaker.begin(now)
        breaker.fail(now, probe=probe)
        waits.append(breaker.available_in(now))
        now += waits[-1]

    assert waits == [30, 40, 40]


def test_a_probe_whose_client_left_frees_the_place_of_the_probe() -> None:
    breaker = broken()
    probe = breaker.begin(115)

    breaker.abandon(probe=probe)

    assert breaker.allows(115)


def test_a_rest_is_a_lower_bound_and_a_longer_one_is_never_shortened() -> None:
    breaker = Breaker(RULE)
    breaker.rest(100, 20, probe=False)
    breaker.rest(101, 1, probe=False)

    assert not breaker.allows(119.9)
    assert breaker.allows(120)


def test_rests_do_not_count_as_failures() -> None:
    breaker = Breaker(RULE)
    for _ in range(50):
        breaker.rest(100, 0, probe=False)

    assert breaker.state(100) == "closed"


def test_429s_without_a_word_on_how_long_spare_it_ever_longer_until_it_answers() -> None:
    breaker, now, spared = Breaker(RULE), 100.0, list[float]()
    for _ in range(8):
        breaker.spare(now, 0.999_999, probe=False)
        spared.append(round(breaker.spared_for(now)))
        now += breaker.spared_for(now)
    breaker.succeed(now, probe=False)
    breaker.spare(now, 0.0, probe=False)

    assert spared == [1, 2, 4, 8, 16, 32, 60, 60]
    assert breaker.spared_for(now) == 0.5


def test_429s_of_one_burst_are_one() -> None:
    breaker = Breaker(RULE)
    for later in range(40):
        breaker.spare(100 + later / 100, 0.5, probe=False)

    assert breaker.spared_for(100) == 0.75


def test_who_is_spared_may_be_asked_and_is_not_as_good_as_any() -> None:
    breaker = Breaker(RULE)
    breaker.spare(100, 0.5, probe=False)

    assert breaker.allows(100)
    assert not breaker.welcomes(100.7)
    assert breaker.welcomes(100.75)


def test_a_probe_that_fails_does_not_shorten_what_another_process_has_decided() -> None:
    breaker = Breaker(RULE)
    for _ in range(RULE.min_requests):
        breaker.fail(100, probe=False)
    at = 100 + RULE.cooldown_s
    assert breaker.begin(at)
    elsewhere = Health(at=at, open_until=at + 250, cooldown_s=250, rest_until=0.0, last_failure=at)

    breaker.hear(elsewhere)
    breaker.fail(at + 1, probe=True)

    assert not breaker.allows(at + 249)


EVENTS = st.lists(
    st.tuples(st.sampled_from(["ok", "fail", "rest", "spare", "leave"]), st.floats(0, 20)),
    max_size=60,
)


@given(EVENTS)
def test_whatever_happens_at_most_one_probe_is_out_and_it_always_recovers(
    events: list[tuple[str, float]],
) -> None:
    breaker, now, probing = Breaker(RULE), 100.0, False
    for what, later in events:
        now += later
        if not breaker.allows(now):
            continue
        probe = breaker.begin(now)
        assert not (probe and probing)
        match what:
            case "ok":
                breaker.succeed(now, probe=probe)
            case "fail":
                breaker.fail(now, probe=probe)
            case "rest":
                breaker.rest(now, later, probe=probe)
            case "spare":
                breaker.spare(now, 0.5, probe=probe)
            case _:
                breaker.abandon(probe=probe)

    assert breaker.allows(now + breaker.available_in(now) + 1e-6)
