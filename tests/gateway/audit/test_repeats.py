"""Refused attempts are counted together, so that nobody can fill the disk with them."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.gateway.audit.event import AuditEvent, Outcome
from strowger_gateway.gateway.audit.repeats import MOST_CLIENTS, OTHERS, WINDOW_S, Repeats

REFUSED = AuditEvent(action="admin.access", outcome="refused", actor_kind="unknown", reason="wrong")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def refused(address: str, outcome: Outcome = "refused") -> AuditEvent:
    return replace(REFUSED, address=address, outcome=outcome)


def counts(events: Iterable[AuditEvent]) -> list[tuple[str, int]]:
    return [(event.address, event.count) for event in events]


def test_the_first_attempt_is_recorded_now_and_repeats_when_the_minute_has_passed() -> None:
    clock = Clock()
    repeats = Repeats(clock)

    first = counts(repeats.admit(refused("10.0.0.1")))
    more = [one for _ in range(9) for one in counts(repeats.admit(refused("10.0.0.1")))]
    early = counts(repeats.due())
    clock.now = WINDOW_S
    late = counts(repeats.due())

    assert (first, more, early, late) == ([("10.0.0.1", 1)], [], [], [("10.0.0.1", 9)])
    assert counts(repeats.admit(refused("10.0.0.1"))) == [("10.0.0.1", 1)]


def test_addresses_of_one_ipv6_customer_are_one_client() -> None:
    repeats = Repeats(Clock())
    tried = [f"2001:db8:1:2::{place}" for place in range(1, 50)]

    recorded = [one for address in tried for one in counts(repeats.admit(refused(address)))]

    assert recorded == [("2001:db8:1:2::1", 1)]
    assert counts(repeats.due(all_of_them=True)) == [("2001:db8:1:2::49", 48)]


def test_what_is_done_and_rejected_files_are_recorded_each() -> None:
    repeats = Repeats(Clock())
    done = replace(REFUSED, outcome="done", action="session.sign_in")
    rejected = replace(REFUSED, action="config.reload", actor_kind="config")

    for event in (done, done, rejected, rejected):
        assert list(repeats.admit(event)) == [event]


def test_an_operator_who_is_refused_is_recorded_while_strangers_attack() -> None:
    repeats = Repeats(Clock())
    for place in range(200):
        list(repeats.admit(refused(f"10.0.0.{place}")))
    operator = replace(REFUSED, actor_kind="session", actor="ada", address="10.9.9.9")

    assert list(repeats.admit(operator)) == [operator]


@given(st.lists(st.tuples(st.integers(0, 60), st.floats(0, 20)), max_size=200))
def test_no_attempt_is_forgotten_and_few_rows_are_written(
    attempts: list[tuple[int, float]],
) -> None:
    clock = Clock()
    repeats = Repeats(clock)
    recorded: list[AuditEvent] = []

    for client, pause_s in attempts:
        clock.now += pause_s
        recorded += repeats.admit(refused(f"10.0.0.{client}"))
    recorded += repeats.due(all_of_them=True)

    minutes = clock.now / WINDOW_S + 1
    assert sum(event.count for event in recorded) == len(attempts)
    assert len(recorded) <= 2 * (MOST_CLIENTS + 1) * (minutes + 1)
    assert all(event.reason == OTHERS for event in recorded if not event.address)
