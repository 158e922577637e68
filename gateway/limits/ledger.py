"""Reserve what a request may use under all limits that apply to it, or nothing at all."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from gateway.limits.window import PIECES, Entry, Seats, Window

Quantity = Literal["requests", "tokens", "concurrent"]

NEVER: Final = 1 << 62
"""Later than every time of the clock, nanoseconds."""


class Account(Struct, eq=False):
    """What one limit allows to one of its subjects. `None`: it does not limit the quantity.

    limit: its name. per: its period, for messages. subject: the key's name if each key has an
    account, or "". exact: a worker never exceeds its lease. one_of_many: of an end user.
    """

    limit: str
    per: str
    subject: str
    requests: Window | None
    tokens: Window | None
    seats: Seats | None
    exact: bool = True
    one_of_many: bool = False

    def refusals(self, requests: int, tokens: int, seats: int, at: int) -> "list[LimitRefusal]":
        """The quantities that these amounts exceed."""
        found: list[LimitRefusal] = []
        windows: tuple[tuple[Quantity, Window | None, int], ...] = (
            ("requests", self.requests, requests),
            ("tokens", self.tokens, tokens),
        )
        for quantity, window, amount in windows:
            if window is None:
                continue
            window.expire(at)
            if window.room < amount:
                wait = window.wait(amount, at)
                found.append(LimitRefusal(self.limit, self.per, quantity, window.limit, wait))
        if self.seats is not None and self.seats.room < seats:
            found.append(LimitRefusal(self.limit, self.per, "concurrent", self.seats.limit, 0))
        return found

    def expire(self, at: int) -> None:
        """Free what stops to count at this time or before."""
        for window in (self.requests, self.tokens):
            if window is not None:
                window.expire(at)

    @property
    def unused(self) -> bool:
        """Whether nothing counts in it and nothing is lent."""
        parts = (self.requests, self.tokens, self.seats)
        return all(part is None or part.unused for part in parts)


_Open = tuple[tuple[Window, Entry], ...]
"""Windows, each with the entry to which uses are added now."""


class Accounts:
    """All accounts that apply to a request; `reserve` takes from all of them or from none.

    requests, tokens, seats: their windows and seats. least: the smallest limit of tokens, 0
    without one. header_parts: what `gateway.limits.headers` remembers.
    """

    __slots__ = (
        "_each",
        "_open_requests",
        "_open_tokens",
        "_open_until",
        "all",
        "header_parts",
        "least",
        "requests",
        "seats",
        "tokens",
    )

    def __init__(self, accounts: Sequence[Account]) -> None:
        self.all = tuple(accounts)
        self.header_parts: object = None
        self.requests = tuple([one.requests for one in accounts if one.requests is not None])
        self.tokens = tuple([one.tokens for one in accounts if one.tokens is not None])
        self.seats = tuple([one.seats for one in accounts if one.seats is not None])
        self.least = min([one.limit for one in self.tokens], default=0)
        self._each = tuple([one for one in self.requests if one.limit <= PIECES])
        self._open_requests: _Open = ()
        self._open_tokens: _Open = ()
        self._open_until = -1

    def reserve(self, tokens: int, at: int) -> "Hold | None":
        """Reserve a request with so many tokens; `None` if an account lacks room.

        at: the clock, nanoseconds.
        """
        for window in self.requests:
            if window.room < 1:
                return self._reserve_late(tokens, at)
        for window in self.tokens:
            if window.room < tokens:
                return self._reserve_late(tokens, at)
        for seats in self.seats:
            if seats.room < 1:
                return None
        if at > self._open_until:
            self._open(at)
        for window, entry in self._open_requests:
            window.room -= 1
            entry[1] += 1
        if self._each:
            for window in self._each:
                window.take(1, at)
        for seats in self.seats:
            seats.room -= 1
        reserved = self._open_tokens
        for window, entry in reserved:
            window.room -= tokens
            entry[1] += tokens
        return Hold(self, tokens, reserved)

    def _reserve_late(self, tokens: int, at: int) -> "Hold | None":
        """Reserve after all: what has stopped to count is freed only when room is needed."""
        freed = [window.expire(at) for window in (*self.requests, *self.tokens)]
        return self.reserve(tokens, at) if any(freed) else None

    def _open(self, at: int) -> None:
        """Remember the entries of uses that begin now.

        They serve until the first window begins another one: large limits have an entry per 1024th
        of their period. With one that has an entry per use, they serve only now.
        """
        each = self._each
        windows = [window for window in self.requests if window not in each]
        self._open_requests = tuple([(window, window.entry(at)) for window in windows])
        self._open_tokens = tuple([(window, window.entry(at)) for window in self.tokens])
        ends = [window.last_until for window in (*windows, *self.tokens)]
        self._open_until = min(ends, default=NEVER)

    def refusal(self, tokens: int, at: int) -> "LimitRefusal":
        """Why `reserve` returned `None`: of all reasons the one that lasts longest."""
        found = [why for one in self.all for why in one.refusals(1, tokens, 1, at)]
        return max(found, key=LimitRefusal.lasting)

    def too_large(self, tokens: int) -> "LimitRefusal | None":
        """The limit that could never hold the request, if there is one."""
        for one in self.all:
            if one.tokens is not None and tokens > one.tokens.limit:
                return LimitRefusal(one.limit, one.per, "tokens", one.tokens.limit, None)
        return None


class Hold(Struct, eq=False, gc=False):
    """What one request has reserved, until `settle`. A Struct created by position (ADR 16).

    reserved: where its tokens count.
    """

    accounts: Accounts
    tokens: int
    reserved: _Open
    open: bool = True

    def settle(self, used: int, at: int) -> None:
        """The request has ended, and has used so many tokens. Later calls do nothing.

        What it did not use is free again; an excess counts from now on.
        """
        if not self.open:
            return
        self.open = False
        for seats in self.accounts.seats:
            seats.room += 1
        unused = self.tokens - used
        if unused > 0:
            for window, entry in self.reserved:
                if entry[0] > at:
                    entry[1] -= unused
                    window.room += unused
                else:
                    window.free_late(entry, unused, at)
        elif unused:
            for window, _ in self.reserved:
                window.take(-unused, at)


class LimitRefusal(Struct, frozen=True):
    """Why a request is refused.

    wait: nanoseconds until there is room if nothing else is taken; 0 if that cannot be known,
    because a request in flight has to end; `None` if the request is larger than the limit.
    """

    limit: str
    per: str
    quantity: Quantity
    allowed: int
    wait: int | None

    def lasting(self) -> float:
        """How long it lasts, for comparisons."""
        return float("inf") if self.wait is None else self.wait
