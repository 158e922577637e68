"""The ledger alone, over random histories: never too much, never refused without reason."""

import copy
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from strowger_gateway.gateway.governance.limits.ledger import Account, Accounts, Hold
from strowger_gateway.gateway.governance.limits.window import PIECES, ConcurrencySlots, Window

PERIODS = (100, 1000)
"""Nanoseconds: the ledger does not know how long a minute is."""


class Step(Struct, frozen=True):
    """One thing that happens, `after` nanoseconds. amount: tokens reserved, or used."""

    what: Literal["reserve", "settle", "resize"]
    after: int
    amount: int
    which: int


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["reserve", "reserve", "reserve", "settle", "settle", "resize"]),
        st.one_of(st.integers(0, 3), st.integers(0, 150), st.sampled_from([99, 100, 101, 1000])),
        st.integers(0, 12),
        st.integers(0, 1000),
    ),
    max_size=60,
)
limits = st.tuples(st.integers(1, 6), st.integers(5, 30), st.integers(1, 30), st.integers(1, 4))


class Use:
    """What the test itself remembers of a request: `tokens` from `since` on, `more` from `late`."""

    def __init__(self, since: int, tokens: int) -> None:
        self.since = since
        self.tokens = tokens
        self.late = 0
        self.more = 0

    def counted(self, at: int, period: int) -> int:
        own = self.tokens if at < self.since + period else 0
        return own + (self.more if self.more and at < self.late + period else 0)


def rooms(accounts: Accounts) -> list[int]:
    return [one.room for one in (*accounts.requests, *accounts.tokens, *accounts.slots)]


class World:
    """Two limits: requests, tokens and requests at once per short period, tokens per long one."""

    def __init__(self, sizes: tuple[int, int, int, int]) -> None:
        requests, tokens, many, slots = sizes
        self.requests = Window(requests, PERIODS[0])
        self.short = Window(tokens, PERIODS[0])
        self.long = Window(many + tokens, PERIODS[1])
        self.slots = ConcurrencySlots(slots)
        self.accounts = Accounts(
            (
                Account("a", "minute", "", self.requests, self.short, self.slots),
                Account("b", "hour", "", None, self.long, None),
            )
        )
        self.uses: list[Use] = []
        self.open: list[tuple[Hold, Use]] = []

    def has_room(self, tokens: int, at: int) -> bool:
        """The definition: what is settled and reserved, and this request, within every limit.

        A request without tokens is within limits of tokens, also after answers that took more.
        """
        requests = sum(at < use.since + PERIODS[0] for use in self.uses)
        short = sum(use.counted(at, PERIODS[0]) for use in self.uses)
        long = sum(use.counted(at, PERIODS[1]) for use in self.uses)
        return (
            requests + 1 <= self.requests.limit
            and (not tokens or short + tokens <= self.short.limit)
            and (not tokens or long + tokens <= self.long.limit)
            and len(self.open) + 1 <= self.slots.limit
        )

    def reserve(self, tokens: int, at: int) -> None:
        expected = self.has_room(tokens, at)
        before = copy.deepcopy(self.accounts)
        hold = self.accounts.reserve(tokens, at)

        assert (hold is not None) == expected
        if hold is not None:
            use = Use(at, tokens)
            self.uses.append(use)
            self.open.append((hold, use))
            return
        for window in (*before.requests, *before.tokens, *self.accounts.requests):
            window.expire(at)
        for window in self.accounts.tokens:
            window.expire(at)
        assert rooms(self.accounts) == rooms(before), "a refused request has reserved something"
        self.check_refusal(tokens, at)

    def check_refusal(self, tokens: int, at: int) -> None:
        refusal = self.accounts.refusal(tokens, at)
        if refusal.wait is None:
            assert tokens > min(self.short.limit, self.long.limit)
        elif refusal.wait == 0:
            assert self.slots.room < 1
        elif self.slots.room >= 1:
            alone, early = copy.deepcopy(self.accounts), copy.deepcopy(self.accounts)
            assert alone.reserve(tokens, at + refusal.wait) is not None
            assert early.reserve(tokens, at + refusal.wait - 1) is None

    def settle(self, which: int, used: int, at: int) -> None:
        if not self.open:
            return
        hold, use = self.open.pop(which % len(self.open))
        hold.settle(used, at)
        hold.settle(used + 5, at)  # does nothing
        if used > use.tokens:
            use.late, use.more = at, used - use.tokens
        else:
            use.tokens = used

    def run(self, history: list[Step]) -> int:
        """Return the time at the end."""
        at = 1
        for step in history:
            at += step.after
            match step.what:
                case "reserve":
                    self.reserve(step.amount, at)
                case "settle":
                    self.settle(step.which, step.amount, at)
                case "resize":
                    self.short.resize(5 + step.amount)
        return at


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(sizes=limits, history=steps)
def test_a_request_is_admitted_exactly_while_there_is_room_under_every_limit(
    sizes: tuple[int, int, int, int], history: list[Step]
) -> None:
    check_history(sizes, history)


@pytest.mark.nightly
@settings(max_examples=100_000, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(sizes=limits, history=steps)
def test_100_000_random_histories_keep_every_limit(
    sizes: tuple[int, int, int, int], history: list[Step]
) -> None:
    check_history(sizes, history)


def check_history(sizes: tuple[int, int, int, int], history: list[Step]) -> None:
    world = World(sizes)
    at = world.run(history)

    while world.open:
        world.settle(0, 1, at)
    long_after = at + 2 * PERIODS[1]
    for window in (world.requests, world.short, world.long):
        window.expire(long_after)
        assert (window.room, window.used) == (window.limit, 0)
    assert world.slots.room == world.slots.limit


@given(
    limit=st.integers(PIECES + 1, 5000),
    uses=st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 2000)), max_size=80),
)
def test_no_span_of_a_period_holds_more_than_a_large_limit(
    limit: int, uses: list[tuple[int, int]]
) -> None:
    """Uses within a 1024th of the period are kept together, and count that much longer."""
    period = 100_000
    window, taken, at = Window(limit, period), list[tuple[int, int]](), 0
    for after, amount in uses:
        at += after
        window.expire(at)
        if window.room >= amount:
            window.take(amount, at)
            taken.append((at, amount))
        else:
            counted = sum(one for then, one in taken if at < then + period + period // PIECES)
            assert counted + amount > limit, "refused although there is room"

    for begin, _ in taken:
        assert sum(one for then, one in taken if begin <= then < begin + period) <= limit
    assert window.used == limit - window.room


@given(uses=st.lists(st.tuples(st.integers(-300, 300), st.integers(0, 6)), min_size=1, max_size=60))
def test_a_clock_that_steps_back_makes_uses_count_longer_and_never_shorter(
    uses: list[tuple[int, int]],
) -> None:
    window, at = Window(10, 100), 10_000
    latest, taken = 0, list[tuple[int, int]]()
    for step, amount in uses:
        at += step
        latest = max(latest, at)
        window.expire(at)
        if window.room >= amount:
            window.take(amount, at)
            taken.append((latest, amount))
        assert sum(one for then, one in taken if latest < then + 100) <= 10

    window.expire(latest + 100)
    assert window.room == 10


def test_no_burst_of_twice_the_limit_passes_at_the_turn_of_a_minute() -> None:
    minute = 60_000_000_000
    window = Window(60, minute)
    admitted = 0
    for at in (minute - 1, minute, minute + 1, minute + 2):
        window.expire(at)
        while window.room >= 1:
            window.take(1, at)
            admitted += 1

    assert admitted == 60


def test_a_client_that_sends_exactly_at_the_rate_is_never_refused() -> None:
    second = 1_000_000_000
    window = Window(60, 60 * second)
    for turn in range(600):
        window.expire(turn * second)
        assert window.room >= 1
        window.take(1, turn * second)


def test_what_is_freed_after_a_limit_has_changed_counts_no_longer_and_no_shorter() -> None:
    """The change begins another entry: the request is part of the one before it."""
    window = Window(5000, PIECES * 100)
    accounts = Accounts((Account("l", "minute", "", None, window, None),))
    before, after = window.period, window.period + 200
    hold = accounts.reserve(1000, 10)
    window.resize(6000)
    later = accounts.reserve(500, 150)
    assert hold is not None
    assert later is not None
    hold.settle(400, 160)

    assert (window.room, window.used) == (6000 - 900, 900)
    window.expire(before + 100)
    assert (window.room, window.used) == (6000 - 500, 500)
    window.expire(after)
    assert (window.room, window.used) == (6000, 0)


def test_a_window_of_any_limit_keeps_at_most_about_a_thousand_entries() -> None:
    window = Window(10**9, 60_000_000_000)
    for turn in range(20_000):
        window.take(1, turn * 3_000_000)
        window.expire(turn * 3_000_000)

    assert len(list(window.entries)) <= PIECES + 2
