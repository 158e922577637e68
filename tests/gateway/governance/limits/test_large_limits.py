"""The ledger with large limits, which keep uses of a 1024th of a period together, and with leases.

STROWGER_LIMIT_HISTORIES: how many histories the nightly run tries.
"""

import os
import random
from operator import ge
from typing import Final

import pytest

from strowger_gateway.gateway.governance.leases.pool import settled
from strowger_gateway.gateway.governance.limits.leased import LeasedWindow
from strowger_gateway.gateway.governance.limits.ledger import Account, Accounts, Headers, Hold
from strowger_gateway.gateway.governance.limits.window import PIECES, ConcurrencySlots, Window

HISTORIES = 500
NIGHTLY = int(os.environ.get("STROWGER_LIMIT_HISTORIES", "100000"))
STEPS = 60
GRAIN: Final = 100
PERIOD: Final = GRAIN * PIECES
LONG: Final = 10 * PERIOD
"""Nanoseconds: the ledger does not know how long a minute is."""


class Use:
    """What the test itself remembers: `amount` counts from `since` on, `more` from `late`."""

    def __init__(self, since: int, amount: int) -> None:
        self.since = since
        self.amount = amount
        self.late = self.more = 0

    def end(self, used: int, at: int) -> None:
        if used > self.amount:
            self.late, self.more = at, used - self.amount
        else:
            self.amount = used

    def counted(self, at: int, period: int) -> int:
        own = self.amount if at < self.since + period else 0
        return own + (self.more if self.more and at < self.late + period else 0)


Need = tuple[Window, list[Use], int]
"""A window, what the test knows of its uses, and what a request takes from it."""


class Shared:
    """Two keys: each has limits of its own, and both share a limit of requests and of tokens."""

    def __init__(self, draws: random.Random) -> None:
        self.draws = draws
        self.at = draws.randrange(1, 10**6)
        self.all_requests = Window(PIECES + draws.randrange(1, 50), PERIOD)
        self.all_tokens = Window(draws.randrange(2000, 9000), LONG)
        self.own_tokens = Window(draws.randrange(1500, 5000), PERIOD)
        self.own_requests = Window(draws.randrange(1, 12), PERIOD)
        self.slots = ConcurrencySlots(draws.randrange(2, 9))
        both = Account("both", "hour", "", self.all_requests, self.all_tokens, None)
        own = Account("a", "minute", "", None, self.own_tokens, self.slots)
        other = Account("b", "minute", "", self.own_requests, None, None)
        self.keys = Accounts((both, own)), Accounts((other, both))
        filled = self.all_requests.limit - draws.randrange(12)
        self.all_requests.take(filled, self.at)
        self.windows = (
            (self.all_requests, [Use(self.at, filled)]),
            (self.all_tokens, list[Use]()),
            (self.own_tokens, list[Use]()),
            (self.own_requests, list[Use]()),
        )
        self.open: list[tuple[Hold, list[Use]]] = []
        self.seated = 0

    def needs(self, key: int, tokens: int) -> list[Need]:
        amounts = (1, tokens, tokens, None) if key == 0 else (1, tokens, None, 1)
        found = zip(self.windows, amounts, strict=True)
        return [(window, uses, need) for (window, uses), need in found if need is not None]

    def request(self) -> None:
        key, tokens, at = self.draws.randrange(2), self.draws.randrange(1500), self.at
        needs = self.needs(key, tokens)
        shown: Headers = []
        before = [window.room for window, _ in self.windows] + [self.slots.room]
        hold = self.keys[key].reserve(tokens, at, shown)
        if hold is None:
            assert not shown
            rooms = [window.room for window, _ in self.windows] + [self.slots.room]
            assert all(map(ge, rooms, before)), "a refused request has reserved something"
            full = key == 0 and self.seated >= self.slots.limit
            longer = [
                sum(use.counted(at, window.period + window.period // PIECES) for use in uses) + need
                for window, uses, need in needs
            ]
            limits = [window.limit for window, _, _ in needs]
            over = [one > limit for one, limit in zip(longer, limits, strict=True)]
            assert full or any(over), "refused although there is room"
            return
        own: list[Use] = []
        for window, uses, need in needs:
            counted = sum(use.counted(at, window.period) for use in uses)
            assert not need or counted + need <= window.limit, "admitted without room"
            uses.append(Use(at, need))
            if window in (self.all_tokens, self.own_tokens):
                own.append(uses[-1])
        self.check_shown(dict(shown), needs)
        self.seated += key == 0
        assert key == 1 or self.seated <= self.slots.limit
        self.open.append((hold, own))

    def check_shown(self, shown: dict[bytes, bytes], needs: list[Need]) -> None:
        """The headers are those of the window with the least room, of requests and of tokens."""
        for kind, mine in (
            (b"requests", (self.all_requests, self.own_requests)),
            (b"tokens", (self.all_tokens, self.own_tokens)),
        ):
            rooms = [window.room for window, _, _ in needs if window in mine]
            assert int(shown[b"x-ratelimit-remaining-" + kind]) == max(0, min(rooms))
            least = [
                window for window, _, _ in needs if window in mine and window.room == min(rooms)
            ]
            assert int(shown[b"x-ratelimit-limit-" + kind]) in [one.limit for one in least]

    def end(self) -> None:
        hold, own = self.open.pop(self.draws.randrange(len(self.open)))
        used = self.draws.randrange(1600)
        hold.settle(used, self.at)
        hold.settle(used + 5, self.at)  # does nothing
        self.seated -= hold.accounts is self.keys[0]
        for use in own:
            use.end(used, self.at)

    def run(self) -> None:
        for _ in range(STEPS):
            after = (0, 1, GRAIN // 3, GRAIN, 5 * GRAIN, PERIOD // 3, PERIOD, LONG)
            self.at += self.draws.choices(after, (30, 20, 20, 10, 10, 5, 3, 1))[0]
            if self.open and self.draws.random() < 0.4:
                self.end()
            else:
                self.request()
        while self.open:
            self.end()
        for window, _ in self.windows:
            window.expire(self.at + 2 * LONG)
            assert (window.room, window.used) == (window.limit, 0), "something counts for ever"
        assert self.slots.room == self.slots.limit


class Leased:
    """A worker that leases from a leader's window, and reports now and then."""

    def __init__(self, draws: random.Random) -> None:
        self.draws = draws
        self.at = draws.randrange(1, 10**6)
        limit = draws.choice((40, draws.randrange(1500, 6000)))
        self.leader, self.window = (
            Window(limit, PERIOD),
            LeasedWindow(limit, PERIOD, ("a", "", "tokens")),
        )
        self.accounts = Accounts((Account("a", "minute", "", None, self.window, None),))
        self.largest = limit // 3
        self.held = 0
        self.uses: list[Use] = []
        self.open: list[tuple[Hold, Use]] = []
        self.overrun = 0

    def counted(self) -> int:
        return sum(use.counted(self.at, PERIOD) for use in self.uses)

    def request(self) -> None:
        tokens = self.draws.randrange(self.largest)
        hold = self.accounts.reserve(tokens, self.at)
        if hold is None:
            self.report(recalled=False)
            self.leader.expire(self.at)
            lease = tokens - self.window.room
            if self.leader.room < lease:
                return
            self.leader.lend(lease)
            self.held += lease
            self.window.change(lease)
            hold = self.accounts.reserve(tokens, self.at)
            assert hold is not None, "a lease does not cover its request"
        self.uses.append(Use(self.at, tokens))
        self.open.append((hold, self.uses[-1]))
        assert self.counted() <= self.leader.limit + self.overrun, "admitted without room"

    def end(self) -> None:
        hold, use = self.open.pop(self.draws.randrange(len(self.open)))
        used = self.draws.randrange(self.largest + 10)
        self.overrun += max(0, used - use.amount)
        hold.settle(used, self.at)
        use.end(used, self.at)

    def report(self, *, recalled: bool) -> None:
        use = self.window.report(recalled=recalled)
        if use is not None:
            self.held = settled(self.leader, self.held, use, self.at)

    def run(self) -> None:
        for _ in range(STEPS):
            after = (0, 1, GRAIN // 3, GRAIN, 5 * GRAIN, PERIOD // 3, PERIOD)
            self.at += self.draws.choices(after, (30, 20, 20, 10, 10, 5, 2))[0]
            match self.draws.choice("rrrreeep"):
                case "e" if self.open:
                    self.end()
                case "p":
                    self.report(recalled=self.draws.random() < 0.2)
                case _:
                    self.request()
        while self.open:
            self.end()
        self.report(recalled=True)
        self.leader.expire(self.at + 2 * PERIOD)
        assert self.held == 0, "something is leased for ever"
        assert self.leader.room == self.leader.limit, "something counts for ever"
        assert self.window.unused


def play(histories: int) -> None:
    for seed in range(histories):
        for world in (Shared, Leased):
            try:
                world(random.Random(seed)).run()
            except AssertionError as exc:
                raise AssertionError(f"{world.__name__} {seed}: {exc}") from exc


def test_keys_that_share_large_limits_get_no_more_than_each_limit_has_and_no_less() -> None:
    play(HISTORIES)


@pytest.mark.nightly
def test_large_limits_hold_over_many_more_histories() -> None:
    play(NIGHTLY)
