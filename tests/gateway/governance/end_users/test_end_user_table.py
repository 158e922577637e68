"""However clients name end users, memory is bounded, and an account is one end user's."""

import random
from hashlib import sha256
from time import monotonic_ns

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.limits import Limit, LimitWho
from strowger_gateway.gateway.governance.end_users.table import KEYS_IN_ALL, OTHERS, EndUserTable
from strowger_gateway.gateway.governance.limits.limits import PERIODS, RequestLimits
from strowger_gateway.gateway.governance.limits.metrics import MOST_END_USERS, LimitUseCollector

STEPS = st.lists(
    st.tuples(st.sampled_from("abcdefghijklmn"), st.integers(0, 12), st.integers(0, 40)),
    max_size=120,
)
"""Key, end user, and how long after the request before."""


def idle_of(key: str) -> int:
    return 40 if key >= "h" else 100


@given(STEPS, st.integers(1, 4))
def test_a_table_never_exceeds_its_bounds_and_forgets_the_idle_first(
    steps: list[tuple[str, int, int]], most: int
) -> None:
    """Keys from h on forget sooner. Only who would exceed a bound shares an account."""
    at, seen = 0, dict[tuple[str, str], int]()
    table = EndUserTable(most, lambda: at)
    for key, number, wait in steps:
        at += wait
        user = f"u{number}"
        expected = table.would_name(key, user)
        name = table.name(key, user, idle_of(key))
        counts = {one: table.count_of(one) for one in "abcdefghijklmn"}

        assert name == expected
        assert sum(counts.values()) == len(table) <= most * KEYS_IN_ALL
        assert max(counts.values()) <= most
        if name == OTHERS:
            full = len(table) == most * KEYS_IN_ALL and max(counts.values()) <= counts[key] + 1
            assert counts[key] == most or full
            continue
        assert name == sha256(user.encode()).hexdigest()[:32]
        known = seen.get((key, user), -1000) > at - idle_of(key)
        seen[key, user] = at
        if not known:
            ages = [at - last for (one, _), last in seen.items() if one == key]
            assert counts[key] <= sum(age < idle_of(key) for age in ages)


def test_keys_that_make_up_end_users_take_no_place_from_a_key_with_fewer() -> None:
    """Whichever are busy: the end users of a small key stay, and new ones of it find room.

    Once all are idle, a few new end users of other keys make the table forget them.
    """
    at = 0
    table = EndUserTable(100, lambda: at)
    flood = [f"flood-{number}" for number in range(20)]
    for number in range(100):
        at += 1
        for key in flood:
            table.name(key, f"{number}", 10**9)
    assert len(table) == 1000
    small = [table.name("small", f"u{number}", 10**9) for number in range(40)]
    for number in range(200, 400):
        at += 1
        for key in flood:
            table.name(key, f"{number}", 10**9)

    shares, kept = [table.count_of(key) for key in flood], table.count_of("small")
    at += 10**9
    for number in range(40):
        table.name(f"later-{number % 2}", f"{number}", 10**9)

    assert OTHERS not in small
    assert kept == 40
    assert sum(shares) == 960
    assert max(shares) - min(shares) <= 1
    assert len(table) == 40  # of the later keys: the others were idle


def test_an_end_user_keeps_its_place_when_the_period_of_its_rules_changes() -> None:
    at = 0
    table = EndUserTable(2, lambda: at)
    names = [table.name("web", user, 60) for user in ("a", "b", "c")]
    at = 50
    again = [table.name("web", user, 100) for user in ("b", "c", "a")]
    at = 120
    later = table.name("web", "c", 100)
    at = 151
    last = table.name("web", "c", 100)

    assert names[2] == again[1] == later == OTHERS
    assert [again[0], again[2]] == [names[1], names[0]]
    assert last == sha256(b"c").hexdigest()[:32]
    assert len(table) == 1


def test_random_end_users_leave_no_more_accounts_than_the_bound() -> None:
    """Thirty thousand end users of one key, of which each sends one request."""
    draws, at = random.Random(7), 0
    limit = Limit(
        name="l", who=LimitWho(any=True), each="end_user", requests=5, tokens=100, per="minute"
    )
    table = EndUserTable(2_000, lambda: at)
    limits = RequestLimits((limit,), lambda: at)
    most = 0
    for number in range(30_000):
        at += draws.randrange(2_000_000)
        name = table.name("web", f"user-{number}-{draws.random()}", PERIODS["minute"])
        accounts = limits.of(("web", "chat", "chat", "", "", name, ""))
        assert accounts is not None
        hold = accounts.reserve(1, at)
        assert hold is not None or name == OTHERS
        if hold is not None:
            hold.settle(1, at)
        if number % 500 == 0:
            most = max(most, len(limits.accounts()))

    assert len(table) == 2_000
    assert most <= 20_000


@pytest.mark.parametrize("each", ["end_user", "key"])
def test_metrics_show_few_end_users_of_a_limit(each: str) -> None:
    limits = RequestLimits(
        tuple(
            Limit(name=name, who=LimitWho(any=True), each=each, requests=10)  # pyright: ignore[reportArgumentType]  a Literal
            for name in ("l", "m")
        )
    )
    for number in range(50):
        accounts = limits.of((f"k{number}", "chat", "chat", "", "", "e", ""))
        assert accounts is not None
        assert accounts.reserve(0, monotonic_ns()) is not None

    families = LimitUseCollector(limits.accounts).collect()
    used = [one for family in families if "_used" in family.name for one in family.samples]

    assert len(used) == (2 * MOST_END_USERS if each == "end_user" else 100)
