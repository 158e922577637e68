"""Reserve what a request may use under all limits that apply to it, or nothing at all."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from gateway.limits.window import Entry, Seats, Window

Quantity = Literal["requests", "tokens", "concurrent"]


class Account(Struct, eq=False, gc=False):
    """What one limit allows to one of its subjects. `None`: it does not limit the quantity.

    limit: its name. per: its period, for messages. subject: the key's name if each key has an
    account, or "". exact: a worker never exceeds its lease.
    """

    limit: str
    per: str
    subject: str
    requests: Window | None
    tokens: Window | None
    seats: Seats | None
    exact: bool = True

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

    @property
    def unused(self) -> bool:
        """Whether nothing counts in it and nothing is lent."""
        parts = (self.requests, self.tokens, self.seats)
        return all(part is None or part.unused for part in parts)


class Accounts:
    """All accounts that apply to a request; `reserve` takes from all of them or from none."""

    __slots__ = ("all", "header_parts", "requests", "seats", "tokens")

    def __init__(self, accounts: Sequence[Account]) -> None:
        self.all = tuple(accounts)
        self.header_parts: object = None
        self.requests = tuple([one.requests for one in accounts if one.requests is not None])
        self.tokens = tuple([one.tokens for one in accounts if one.tokens is not None])
        self.seats = tuple([one.seats for one in accounts if one.seats is not None])

    def reserve(self, tokens: int, at: int) -> "Hold | None":
        """Reserve a request with so many tokens; `None` if an account lacks room.

        at: the clock, nanoseconds.
        """
        for window in self.requests:
            if window.due <= at:
                window.expire(at)
            if window.room < 1:
                return None
        for window in self.tokens:
            if window.due <= at:
                window.expire(at)
            if window.room < tokens:
                return None
        for seats in self.seats:
            if seats.room < 1:
                return None
        for window in self.requests:
            if at <= window.last_until:  # `take` written out
                window.room -= 1
                window.last[1] += 1
            else:
                window.open_entry(1, at)
        for seats in self.seats:
            seats.room -= 1
        entries: list[Entry] = []
        for window in self.tokens:
            if at <= window.last_until:
                window.room -= tokens
                entry = window.last
                entry[1] += tokens
            else:
                entry = window.open_entry(tokens, at)
            entries.append(entry)
        return Hold(self, tokens, entries)

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


class Hold(Struct, eq=False):
    """What one request has reserved, until `settle`. A Struct created by position (ADR 16).

    entries: where its tokens count, in the order of `accounts.tokens`.
    """

    accounts: Accounts
    tokens: int
    entries: list[Entry]
    open: bool = True

    def settle(self, used: int, at: int) -> None:
        """The request has ended, and has used so many tokens. Later calls do nothing."""
        if not self.open:
            return
        self.open = False
        reserved = self.tokens
        for seats in self.accounts.seats:
            seats.room += 1
        if used != reserved:
            for window, entry in zip(self.accounts.tokens, self.entries, strict=True):
                window.settle(entry, reserved, used, at)


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
